"""What is wrong with the run, in words that the screen and the plain lines share. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from unilab_metrics.drop_words import trouble_words
from unilab_metrics.wording import counted
from unilab_schema.control import BackendStatus
from unilab_sidecar.alerting.dropped_alert import MOST_NAMED, dropped_text, listed, place
from unilab_sidecar.alerting.reading_troubles import reading_troubles
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean, fit
from unilab_sidecar.events.milestones import stopped_by
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.progress.source_states import unsaid_failures
from unilab_sidecar.progress.standing import has_contact

WRITER_SILENT_S = 5.0
"""A writer reports once a second."""
SKEW_S = 1.0
_WAITING_FRAMES = 1000
_TCP, _UNKNOWN_S = "tcp:", 10.0
"""An aggregator that starts again has spoken by then."""
_MOST_OWN = 4
_WELL = frozenset({"starting", "running", "finished"})


Border = Literal["ended", "failed", "trouble"]
BORDERS: tuple[Border, ...] = ("ended", "failed", "trouble")


class Alert(NamedTuple):
    """One thing that is wrong, with the text cleaned for a terminal. ``since``: the iteration at
    which one of the run's own has opened."""

    text: str
    style: Literal["warn", "bad"] = "bad"
    since: int | None = None
    stands_for: int = 1
    """Alerts of the run that this one counts."""

    @property
    def mark(self) -> str:
        """What tells the style without colours: ``!`` of what is bad, ``W`` of a warning."""
        return "! " if self.style == "bad" else "W "

    def line(self, cells: int | None = None) -> str:
        """``W since iter 445: Loss/a = 3.2 (Loss/a > 3)``: among values of now, what was so then.
        ``cells``: that many of what it says are enough."""
        head, said = self.mark, self.text
        if self.since is not None:
            head += f"since iter {self.since}: "
            said = re.sub(rf"(?<! last) at iteration {self.since}\b", "", said, count=1)
        return head + (said if cells is None else fit(said, cells))


def alerts(picture: Picture) -> tuple[Alert, ...]:
    """What a person should know or do, the most urgent first."""
    found: list[Alert] = []
    if picture.ended is not None:
        if picture.ended_text and picture.ended != "completed" and not stopped_by(picture):
            found.append(Alert(clean(picture.ended_text)))
    elif picture.gone is not None:
        found.append(Alert(cut_off(picture.gone, picture.run_dir, picture.host)))
    elif picture.refusal:
        found.append(Alert(f"{clean(picture.refusal)}; {_again(picture)}"))
    elif picture.target.startswith(_TCP) and _UNKNOWN_S <= picture.silent_s < math.inf:
        found.append(Alert(_unknown(picture), "warn"))
    found += [Alert(text, "warn") for text in reading_troubles(picture)]
    found += _of_the_run(picture)
    current = has_contact(picture) and picture.gone is None
    if picture.journal.problem and current:
        found.append(Alert(clean(picture.journal.problem)))
    if picture.gone is None:
        found += [Alert(ranks)] if (ranks := missing_ranks(picture)) else []
        found += _losses(picture)
        found += _failures(picture)
    if picture.ended is not None:
        found += _of_ended_backends(picture)
    if current:
        found += _of_sources(picture)
        found += _of_troubles(picture)
        found += _of_writers(picture)
    if quarantined := picture.journal.quarantined:
        found.append(Alert(f"{counted(quarantined, 'frame')} quarantined"))
    if missing := dropped_text(picture.sources):
        found.append(Alert(missing, "warn"))
    return tuple(_named_once(found, picture.run_dir_there))


def how_many(said: Iterable[Alert]) -> int:
    """Of all that is wrong, also where one line counts several."""
    return sum(alert.stands_for for alert in said)


def border(picture: Picture) -> Border | None:
    """What the border says by its colour, and the words inside it say too: a run that has ended
    well, one that has not, or something wrong with one that goes on."""
    if picture.ended is not None:
        return "ended" if picture.ended == "completed" or stopped_by(picture) else "failed"
    if picture.gone is not None:
        return "failed"
    return "trouble" if any(alert.style == "bad" for alert in alerts(picture)) else None


def end_word(picture: Picture) -> str:
    """``FAILED``, ``COMPLETED``, ``STOPPED``, ``CUT OFF``; empty while the run goes on."""
    if stopped_by(picture):
        return "STOPPED"
    if picture.ended is not None:
        return clean(picture.ended).upper()
    return "CUT OFF" if picture.gone is not None else ""


def trouble_word(picture: Picture) -> str:
    """``! 2 alerts · ✗ 1 failed``: what the overview says in full, for views that say other things;
    empty for nothing, and of a run that is over for its sources and its end, which others tell."""
    is_over = picture.ended is not None or picture.gone is not None
    said = alerts(picture)
    if len(said) == 1 and (picture.gone is not None or said[0].text == clean(picture.ended_text)):
        said = ()
    mark = "! " if any(alert.style == "bad" for alert in said) else "W "
    words = [f"{mark}{counted(how_many(said), 'alert')}"] if said else []
    states = Counter(source.state for source in picture.sources if not is_over)
    words += [f"✗ {states[one]:,} {one}" for one in ("failed", "lost") if states[one]]
    return " · ".join(words)


def _unknown(picture: Picture) -> str:
    """Of a run of which nothing but an address is seen."""
    command = clean(f"unilab-metrics doctor {shlex.quote(picture.run_dir or 'RUN_DIR')}")
    since = f"nothing was heard for {formatting.age(picture.silent_s)}"
    return f"{since}; over tcp:// nobody can see whether it goes on: there, `{command}` tells"


def _again(picture: Picture) -> str:
    if picture.outage is None:
        return "tried again every 2 s"
    next_s = picture.outage.next_s
    return "trying again" if next_s is None else f"tried again in {next_s:.0f} s"


def _of_the_run(picture: Picture) -> list[Alert]:
    """What the aggregator has found, the newest first, then how many more there are."""
    newest, count = picture.own_alerts
    # That of a failure outlives the run, whose end says the same.
    told = sum(one.text == picture.ended_text for one in newest)
    newest, count = tuple(one for one in newest if one.text != picture.ended_text), count - told
    found = [
        Alert(clean(one.text), "warn" if one.severity == "warn" else "bad", one.iteration)
        for one in reversed(newest[-_MOST_OWN:])
    ]
    if count > len(found):
        more = count - len(found)
        found.append(Alert(f"{counted(more, 'more alert')} open", stands_for=more))
    if picture.alert_webhook and picture.ended is None:
        found.append(Alert(clean(picture.alert_webhook), "warn"))
    return found


def missing_ranks(picture: Picture) -> str:
    """``n = 3 of 4 ranks, missing: rank 2``, empty if all ranks were in the newest update."""
    if picture.ranks_reported >= picture.ranks_expected:
        return ""
    said = f"n = {picture.ranks_reported} of {picture.ranks_expected} ranks"
    which = "ranks" if len(picture.missing_ranks) > 1 else "rank"
    named = f"{which} {listed(map(str, picture.missing_ranks))}" if picture.missing_ranks else ""
    return f"{said}, missing: {named or 'unknown'}"


def cut_off(gone: tuple[str, ...], run_dir: str, host: str = "") -> str:
    """What is to be said of a run on which nobody is at work, with what completes it. ``host``: its
    machine, if that is not this one."""
    names = f" (gone: {listed(map(clean, gone))})" if gone else ""
    command = f"unilab-metrics recover {shlex.quote(run_dir or 'RUN_DIR')}"
    machine, there = (f"on {clean(host)}", "there, ") if host else ("on this machine", "")
    return f"nobody {machine} is at work on it{names}; {there}`{clean(command)}` completes it"


def _of_sources(picture: Picture) -> list[Alert]:
    silent = [source for source in picture.sources if source.state == "silent"]
    skewed = [source for source in picture.sources if abs(source.clock_skew_s) >= SKEW_S]
    found: list[Alert] = []
    if silent:
        named = (f"{place(one)} for {formatting.age(one.age_s)}" for one in silent)
        found.append(Alert("silent: " + listed(named), "warn"))
    if skewed:
        named = (f"{place(one)} {one.clock_skew_s:+.0f} s" for one in skewed)
        found.append(Alert("clocks differ: " + listed(named), "warn"))
    return found


def _of_troubles(picture: Picture) -> list[Alert]:
    """Each with whom it meets: it costs no frame, but only a person can end it."""
    places: dict[str, list[str]] = {}
    for trouble in picture.troubled:
        often = f" ({trouble.times:,} times)" if trouble.times > 1 else ""
        places.setdefault(trouble.name, []).append(f"{clean(trouble.place)}{often}")
    return [
        Alert(f"{clean(trouble_words(name))}: {listed(who)}", "warn")
        for name, who in places.items()
    ]


def _losses(picture: Picture) -> list[Alert]:
    """Each with the last word about its end if there is one, the others by their names; none if
    the end of the run names them."""
    lost = [
        source
        for source in picture.sources
        if source.state == "lost"
        and not re.search(rf"{re.escape(source.key.place)}(?!\d)", picture.ended_text)
    ]
    told: list[str] = []
    others: list[str] = []
    for source in lost:
        start = f"{source.key.place} ("
        texts = [n.text for n in picture.notes if n.kind == "lost" and n.text.startswith(start)
                 and is_current(n, picture)]  # fmt: skip
        if texts and len(told) < MOST_NAMED:
            told.append(clean(texts[-1]))
        else:
            others.append(place(source))
    return [Alert(text) for text in told] + ([Alert(f"lost: {listed(others)}")] if others else [])


def _failures(picture: Picture) -> list[Alert]:
    """Whoever has failed and is named by no alert of the run, nor by its end."""
    said = [picture.ended_text, *(one.text for one in picture.own_alerts[0])]
    failed = unsaid_failures(picture.sources, said)
    return [Alert(listed(map(clean, failed)))] if failed else []


def is_current(note: Note, picture: Picture) -> bool:
    """Whether an event is about the attempt that is shown, as far as is known."""
    return note.attempt in (0, picture.attempt) or not picture.attempt


def _named_once(found: Iterable[Alert], run_dir: str) -> list[Alert]:
    """The run's directory is long: what names files in it after the first alert names them from
    there."""
    prefix = clean(run_dir.rstrip("/")) + "/"
    named: list[Alert] = []
    is_named = False
    for alert in found:
        names_it = len(prefix) > 1 and prefix in alert.text
        named.append(
            alert._replace(text=alert.text.replace(prefix, "")) if names_it and is_named else alert
        )
        is_named = is_named or names_it
    return named


def _of_writers(picture: Picture) -> list[Alert]:
    """What they say of themselves. That one is behind, the run's own alert says, which knows since
    when."""
    found: list[Alert] = []
    for backend in picture.backends:
        name = f"writer of {clean(backend.name)}"
        text = f": {clean(backend.text)}" if backend.text else ""
        if backend.state not in _WELL:
            style: Literal["warn", "bad"] = "bad" if backend.state == "failed" else "warn"
            found.append(Alert(f"{name} {clean(backend.state)}{text}", style))
        elif is_silent(backend):
            found.append(Alert(f"{name} silent for {formatting.age(backend.age_s)}", "warn"))
    backlog = picture.bus.backlog
    if backlog is not None and backlog.stale_s is None and backlog.value >= _WAITING_FRAMES:
        text = f"{formatting.whole(backlog.value)} frames wait in the spools"
        found.append(Alert(text, "warn"))
    return found


def _of_ended_backends(picture: Picture) -> list[Alert]:
    """What lacks updates though the run has ended and nobody goes on with it."""
    command = clean(f"unilab-metrics write {shlex.quote(picture.run_dir or 'RUN_DIR')}")
    found: list[Alert] = []
    for backend in picture.backends:
        last = picture.journal.update
        if backend.state == "finished" and backend.update < last:
            why = f" ({clean(backend.text)})" if backend.text else ""
            held = f"{clean(backend.name)} holds {backend.update:,} of {counted(last, 'update')}"
            found.append(Alert(f"{held}{why}; `{command}` completes it"))
    return found


def is_silent(backend: BackendStatus) -> bool:
    """Whether a writer that should say something does not."""
    is_over = backend.state in ("finished", "failed")
    return backend.age_s is not None and backend.age_s > WRITER_SILENT_S and not is_over
