"""A run as lines of text: for pipes, logs and terminals that cannot show a screen.

No escape codes, no carriage returns, at most one line per update and interval.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from unilab_metrics.errors import ExitCode
from unilab_metrics.wording import counted
from unilab_schema.bottleneck import Rule
from unilab_sidecar import formatting
from unilab_sidecar.alerts import alerts
from unilab_sidecar.batch import Failure
from unilab_sidecar.feed import Feed
from unilab_sidecar.picture import Picture, Reading
from unilab_sidecar.series import Series
from unilab_sidecar.standing import has_contact, is_training, state, words
from unilab_sidecar.text import clean

INTERVAL_S = 5.0
QUIET_INTERVAL_S = 10.0
"""Between two lines about the same iteration."""
_TAKE_S = 0.2
_REFUSED = 4


def format_line(picture: Picture) -> str:
    """The run in one line, for people: the figures of the screen's header. Pure."""
    if picture.iteration is None:
        return _before_training(picture)
    maximum = picture.run.max_iterations
    fields = [f"iter {picture.iteration}" + (f"/{maximum}" if maximum is not None else "")]
    rewards = picture.rewards
    if rewards.mean is not None:
        text = f"reward {formatting.fixed(rewards.mean.value, 2)}"
        if rewards.peak is not None:
            text += f" (peak {formatting.fixed(rewards.peak, 2)})"
        fields.append(text)
    fields += _reading("len", picture.episode_length, lambda v: formatting.fixed(v, 1))
    fields += _reading("steps/s", picture.steps_per_s, formatting.rate)
    fields += _reading("rows/s", picture.rows_per_s, formatting.rate)
    fields += _learning(picture)
    fields.append(f"elapsed {formatting.duration(picture.elapsed_s)}")
    if is_training(picture):
        fields.append(f"eta {formatting.duration(picture.eta_s)}")
    if picture.dropped is not None:
        fields.append(f"dropped {picture.dropped}")
    fields += _troubles(picture)
    return "  ".join(fields)


class Teller(Protocol):
    """Turns pictures into lines of output."""

    def once(self, picture: Picture) -> list[str]:
        """All that is to be said at this moment."""
        ...

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """What is to be said now, if anything. ``now_s``: on any clock that only rises;
        ``is_over``: nothing follows."""
        ...


class LineTeller:
    """One line for people per update and interval, and what holds the training up when that
    changes."""

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._said: str = ""
        self._said_of, self._said_s = _About(None, "", 0), -math.inf
        self._told: Rule | None = None

    def once(self, picture: Picture) -> list[str]:
        """One line, with the end of the run if it has one."""
        ended = picture.ended is not None and picture.iteration is not None
        slow = f"  {bottleneck_line(picture)}" if picture.bottleneck is not None else ""
        return [format_line(picture) + slow + (f"  {_end(picture)}" if ended else "")]

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """The next line if it is time for one, and at the end its last words."""
        lines: list[str] = []
        about = _About(picture.iteration, state(picture).text[:1], len(alerts(picture)))
        wait_s = (
            self._interval_s if about != self._said_of else max(QUIET_INTERVAL_S, self._interval_s)
        )
        if is_over or now_s - self._said_s >= wait_s:
            text = format_line(picture)
            if text != self._said and (picture.iteration is not None or not picture.ended):
                lines.append(text)
            self._said, self._said_of, self._said_s = text, about, now_s
        rule = picture.bottleneck.rule if picture.bottleneck is not None else None
        if rule != self._told and not is_over:
            lines.append(bottleneck_line(picture))
            self._told = rule
        if is_over and picture.ended is not None:
            lines.append("  ".join([_end(picture), *_of_no_iteration(picture)]))
        return lines


def run_plain(
    feed: Feed,
    write: Callable[[str], None],
    *,
    once: bool = False,
    wait: bool = False,
    teller: Teller | None = None,
    interval_s: float = INTERVAL_S,
    clock_s: Callable[[], float] = time.monotonic,
    stopped: Callable[[], bool] = lambda: False,
) -> Failure | None:
    """Writes lines until the run has ended or nobody is at work on it, or those of one moment
    with ``once``. ``wait``: a run that was cut off may go on. ``teller``: what the lines say, by
    default one for people every ``interval_s``.

    The feed runs in another thread. Returns why the feed had to give up, or that the aggregator
    does not let us in any more (unless ``wait`` is given: the key may come back), else ``None``;
    after a run that was cut off, the exit code without a text, because the lines have said it.
    """
    series = Series(feed.run_dir)
    teller = teller or LineTeller(interval_s)
    while not stopped():
        batches = feed.wait(_TAKE_S)
        for batch in batches:
            if batch.failure is not None:
                return batch.failure
            series.add(batch)
        if not batches or series.behind:
            continue
        picture = series.picture()
        is_cut_off = picture.ended is None and picture.gone is not None
        gives_up = is_cut_off and not wait
        if picture.refusal and not wait:
            return Failure(picture.refusal, ExitCode.REFUSED)
        if once:
            if picture.iteration is None and picture.ended is None and not gives_up:
                continue
            for line in teller.once(picture):
                write(line)
            return _CUT_OFF if gives_up else None
        # What is still in the history comes before the end is announced.
        is_all = not any(batch.records for batch in batches)
        over = (picture.ended is not None or gives_up) and is_all
        for line in teller.tell(picture, clock_s(), is_over=over):
            write(line)
        if over:
            return _CUT_OFF if gives_up else None
    return None


def bottleneck_line(picture: Picture) -> str:
    """What holds the training up, with the numbers that say so and where to look first. Pure."""
    found = picture.bottleneck
    return f"bottleneck: {found.text if found is not None else 'nothing stands out any more'}"


class _About(NamedTuple):
    """What a line is about; ages alone make it no other one."""

    iteration: int | None
    mark: str
    alerts: int


_CUT_OFF = Failure("", ExitCode.NO_LIVE_RUN)


def _end(picture: Picture) -> str:
    why = f" ({clean(picture.ended_text)})" if picture.ended_text else ""
    return f"run ended: {clean(picture.ended or '')}{why}"


def _of_no_iteration(picture: Picture) -> list[str]:
    """What no other line has said of a run that has ended without any."""
    if picture.iteration is not None:
        return []
    told = [alert.text for alert in alerts(picture) if alert.text != clean(picture.ended_text)]
    return [*told, *_refusals(picture)]


def _refusals(picture: Picture) -> list[str]:
    """Why, in the words of those who could not log something."""
    texts = [clean(note.text) for note in picture.notes if note.refused]
    more = len(texts) - _REFUSED
    return [*texts[:_REFUSED], *([f"and {more:,} refusals more"] if more > 0 else [])]


def _before_training(picture: Picture) -> str:
    fields = [words(picture)]
    if picture.progress is not None:
        text = clean(picture.progress.text)
        fields.append(text or formatting.percent(100 * picture.progress.fraction))
    fields += [alert.text for alert in alerts(picture)]
    return "  ".join([*fields, *_refusals(picture)])


def _reading(name: str, reading: Reading | None, form: Callable[[float], str]) -> list[str]:
    return [] if reading is None else [f"{name} {form(reading.value)}"]


def _learning(picture: Picture) -> list[str]:
    if picture.learner is None:
        return []
    learning = next((r.ms for r in picture.learner.rows if r.label == "Learning"), None)
    if learning is None:
        return []
    wall = picture.learner.wall_ms
    return [f"learning {formatting.milliseconds(learning)}/{formatting.milliseconds(wall)} ms"]


def _troubles(picture: Picture) -> list[str]:
    """Whatever the screen says of the run's state, of what is wrong and of what is counted."""
    troubles: list[str] = []
    if picture.ended is None and (said := words(picture)) != "training":
        troubles.append(said)
    troubles += [alert.text for alert in alerts(picture) if alert.text != clean(picture.ended_text)]
    if picture.learner is not None and picture.learner.over_accounted:
        share = picture.learner.accounted_percent
        troubles += [] if share is None else [f"phases account for {formatting.percent(share)}"]
    for count, what in (
        (picture.journal.late_values, "late value"),
        (picture.bus.bad_messages, "bad message"),
    ):
        troubles += [counted(count, what)] if count else []
    if picture.refused:
        names = ", ".join(map(clean, picture.refused[:_REFUSED]))
        more = len(picture.refused) - _REFUSED + picture.refused_more
        troubles.append(f"refused {names}" + (f" and {more:,} more" if more > 0 else ""))
    if has_contact(picture) and picture.age_s is not None and picture.age_s > INTERVAL_S:
        troubles.append(f"last update {formatting.age(picture.age_s)} ago")
    return troubles
