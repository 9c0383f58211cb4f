"""The top of the screen: state, progress, time, throughput, health, the last event. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from unilab_sidecar.alerting.alerts import Alert, alerts, is_current
from unilab_sidecar.charting.block_charts import gauge
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    Style,
    clean,
    clip,
    fit,
    line,
    line_width,
    width_of,
)
from unilab_sidecar.events import note_words
from unilab_sidecar.panels.bottleneck import bottleneck
from unilab_sidecar.panels.parts import reading_style, reading_text
from unilab_sidecar.picture import Note, Picture, Reading, Reference
from unilab_sidecar.progress.source_states import MARKS
from unilab_sidecar.progress.standing import expects_eta, has_contact, state

_GAP = "   "
_NAME_CELLS = 40
_AT_THE_END_S = 1.0
REFERENCES: dict[Reference, str] = {
    "now": "ago",
    "end": "before the end",
    "last entry": "before the last entry",
}


def title(picture: Picture, width: int, window: str | None = None) -> str:
    """Algorithm, task, ranks, iteration and the window, in at most ``width`` cells, each once it is
    known. ``GPUs N``: the ranks, each of which has one in the document's trainings. ``window``: of
    a view whose values are no means over the window of the others, what they are.

    The task gives way first: it is the longest part and the one that people know. A single rank is
    worth less than that.
    """
    run = picture.run
    before = [clean(run.algorithm).upper()] if run.algorithm else []
    after = [f"GPUs {run.world_size}"] if picture.attempt else []
    if picture.iteration is not None:
        maximum = f"/{run.max_iterations}" if run.max_iterations is not None else ""
        after.append(f"iter {picture.iteration}{maximum}")
    if window is None and picture.samples:
        window = _window(picture)
    if window:
        after.append(window)
    task = clean(run.task)
    if run.world_size == 1 and len(after) > 1 and task:
        whole = " · ".join([*before, task, *after])
        after = after if width_of(whole) <= width else after[1:]
    while len(after) > 1 and width_of(" · ".join([*before, *after])) > width:
        # Half of a part says less than none.
        after.pop()
        task = ""
    room = width - width_of(" · ".join([*before, "", *after]))
    middle = [fit(task, room)] if task and room >= min(width_of(task), 6) else []
    return fit(" · ".join([*before, *middle, *after]), width)


def header(picture: Picture, width: int, *, short: bool, slowed: bool = False) -> Block:
    """Three lines, two of a training that says nothing of its throughput; ``short`` uses short
    titles, ``slowed`` has what holds the training up in the place of the sources' states and of the
    last event, for screens without a row for it. Below them whatever is wrong, on as many lines as
    it needs, and what could not be logged."""
    said = alerts(picture)
    slow = bottleneck(picture, width) if slowed else []
    second = _fill_line(picture, width) or _throughput_line(picture, short=short)
    lines = [
        _progress_line(picture, width),
        # Before there is a first update nobody knows what it will say.
        *([clip(second, width)] if second or picture.iteration is None else []),
        slow[0] if any(slow) else _health_line(picture, width, _all_said(picture, said)),
    ]
    found = [Segment(f"{alert.mark}{alert.text}", alert.style) for alert in said]
    lines += flowed(None, found, width) if found else []
    return [*lines, _refused_line(picture, width)] if picture.refused else lines


def _window(picture: Picture) -> str:
    age_s = picture.age_s
    late = f", {formatting.age(age_s)} ago" if age_s is not None and age_s > 2.0 else ""
    return f"Avg 2s (n={picture.samples}{late})"


def _progress_line(picture: Picture, width: int) -> Line:
    before = state(picture)
    after: list[Segment] = []
    eta: list[Segment] = []
    fraction: float | None = None
    maximum = picture.run.max_iterations
    done = picture.done_iterations
    if done is not None and maximum:
        fraction = min(done / maximum, 1.0)
    elif picture.progress is not None:
        room = max(width - line_width([before]) - 2, 0)
        after.append(Segment(f"  {fit(_warm_up(picture), room)}", "label"))
    if picture.iteration is not None:
        # Of a moment of the past nobody may know how far the slowest was.
        whose = " of rank 0" if picture.is_past and picture.is_elapsed_of_rank_0 else ""
        after += _pair(f"elapsed{whose}", formatting.duration(picture.elapsed_s), "  ")
        if expects_eta(picture):
            eta = _pair("ETA", formatting.duration(picture.eta_s), "  ")
    if line_width([before, *after, *eta]) <= width:
        after += eta
    parts = [before]
    if fraction is not None:
        percent = f" {formatting.percent(100 * fraction)}"
        room = width - line_width([before, *after]) - width_of(percent) - 2
        if room >= 4:
            done, open_part = gauge(fraction, room)
            parts += [Segment("  "), Segment(done, "accent"), Segment(open_part, "dim")]
        else:
            percent = f" {percent}"
        if line_width([before, *after]) + width_of(percent) <= width:
            parts.append(Segment(percent, "value"))
    return clip([*parts, *after], width)


def _fill_line(picture: Picture, width: int) -> Line:
    """How full the buffer is, across the screen, while warm-up lasts."""
    if picture.iteration is not None or picture.progress is None:
        return ()
    percent = f" {formatting.percent(100 * picture.progress.fraction)}"
    done, open_part = gauge(picture.progress.fraction, max(width - width_of(percent), 0))
    return line(Segment(done, "accent"), Segment(open_part, "dim"), Segment(percent, "value"))


def _warm_up(picture: Picture) -> str:
    return (clean(picture.progress.text) if picture.progress is not None else "") or "warm-up"


def _all_said(picture: Picture, said: Iterable[Alert]) -> set[str]:
    """What other lines say already."""
    texts = {alert.text for alert in said}
    is_warming_up = picture.iteration is None and picture.progress is not None
    return texts | {_warm_up(picture)} if is_warming_up else texts


def _throughput_line(picture: Picture, *, short: bool) -> Line:
    parts: list[Segment] = []
    for label, reading in (("Steps/s", picture.steps_per_s), ("Rows/s", picture.rows_per_s)):
        if reading is not None:
            shown = reading_text(reading, formatting.rate(reading.value))
            parts += _pair(label, shown, reading=reading)
    if (length := picture.episode_length) is not None:
        shown = reading_text(length, formatting.fixed(length.value, 1))
        parts += _pair("Ep Len" if short else "Episode Length", shown, reading=length)
    if picture.env_steps is not None:
        parts += _pair("Env Steps", formatting.whole(picture.env_steps))
    if picture.attempt > 1:
        parts += _pair("attempt", str(picture.attempt))
    return line(*parts[1:])


def _health_line(picture: Picture, width: int, said: Collection[str]) -> Line:
    parts: list[Segment] = []
    counts = Counter(source.state for source in picture.sources)
    current = has_contact(picture) or picture.gone is not None
    if picture.is_past and not picture.sources:
        parts.append(Segment("● states of processes are not kept  ", "label"))
    if picture.sources and not current:
        parts.append(Segment(f"{formatting.age(picture.silent_s)} ago: ", "warn"))
    for name, (mark, style) in MARKS.items():
        if counts[name]:
            parts.append(Segment(f"{mark} {counts[name]} {name}  ", style if current else "dim"))
    if (slow := picture.laggard) is not None and current:
        parts.append(Segment(f"W rank {slow.rank} {slow.behind:,} behind  ", "warn"))
    if (dropped := picture.dropped) is not None:
        parts.append(Segment(f"dropped {dropped:,}  ", "bad" if dropped else "dim"))
    return clip([*parts, *_last_event(picture, width - line_width(parts), said)], width)


def _last_event(picture: Picture, room: int, said: Collection[str]) -> list[Segment]:
    """With its age, for which the text gives way; what other lines have ``said`` does not count,
    nor what happened to older attempts."""
    news = [
        note
        for note in picture.notes
        if not note.refused and clean(note.text) not in said and is_current(note, picture)
    ]
    if not news:
        return []
    note = news[-1]
    style = note_words.news_style(note)
    text, age = clean(note.text), _when(note, picture)
    if picture.note_reference != "now" and width_of(text) + width_of(age) > room:
        # Where nothing goes on, when it was is worth less than what.
        age = ""
    room = max(room - width_of(age), 0)
    return [Segment(fit(_cause_first(text, room), room), style), Segment(age, "dim")]


def _when(note: Note, picture: Picture) -> str:
    if note.age_s is None:
        return ""
    if picture.note_reference == "end" and note.age_s < _AT_THE_END_S:
        return " (at the end)"
    return f" ({formatting.age(note.age_s)} {REFERENCES[picture.note_reference]})"


def _cause_first(text: str, room: int) -> str:
    """What is cut off at its end is to be who, not why."""
    if width_of(text) <= room:
        return text
    for between, begins in ((" failed: ", ""), (" was killed by ", "killed by ")):
        who, found, cause = text.partition(between)
        if found:
            return f"{begins}{cause} ({who})"
    return text


def _refused_line(picture: Picture, width: int) -> Line:
    """As many names as fit, and how many there are besides."""
    head = Segment("! refused  ", "warn")
    names = [fit(clean(name), _NAME_CELLS) for name in picture.refused]
    total = len(names) + picture.refused_more
    for shown in range(len(names), 0, -1):
        rest = f"  and {total - shown:,} more" if total > shown else ""
        parts = line(head, ", ".join(names[:shown]), Segment(rest, "dim"))
        if line_width(parts) <= width:
            return parts
    return clip(line(head, f"{total:,} names"), width)


def _pair(
    label: str, shown: str, gap: str = _GAP, *, reading: Reading | None = None
) -> list[Segment]:
    style: Style = reading_style(reading) if reading is not None else "value"
    return [Segment(gap), Segment(f"{label} ", "label"), Segment(shown, style)]
