"""What is wrong with the run, in words that the screen and the plain lines share. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Literal, NamedTuple

from unilab_metrics.wording import counted
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_sidecar import formatting
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.standing import has_contact
from unilab_sidecar.text import clean

WRITER_SILENT_S = 5.0
"""A writer reports once a second."""
SKEW_S = 1.0
_BEHIND_UPDATES = 50
_BEHIND_WINDOWS = 5
"""A writer is behind if it lacks the updates of so many windows, which last 2 s each."""
_WAITING_FRAMES = 1000
_MOST_NAMED = 8
_WELL = frozenset({"starting", "running", "finished"})


class Alert(NamedTuple):
    """One thing that is wrong, with the text cleaned for a terminal."""

    text: str
    style: Literal["warn", "bad"] = "bad"


def alerts(picture: Picture) -> tuple[Alert, ...]:
    """What a person should know or do, the most urgent first."""
    found: list[Alert] = []
    if picture.ended is not None:
        if picture.ended_text and picture.ended != "completed":
            found.append(Alert(clean(picture.ended_text)))
    elif picture.gone is not None:
        found.append(Alert(cut_off(picture.gone, picture.run_dir)))
    elif picture.refusal:
        found.append(Alert(f"{clean(picture.refusal)}; tried again every 2 s"))
    current = has_contact(picture) and picture.gone is None
    if picture.journal.problem and current:
        found.append(Alert(clean(picture.journal.problem)))
    if picture.gone is None:
        found += [Alert(ranks)] if (ranks := missing_ranks(picture)) else []
        found += _losses(picture)
    if picture.ended is not None:
        found += _of_ended_backends(picture)
    if current:
        found += _of_sources(picture)
        found += _of_troubles(picture)
        found += _of_writers(picture)
    if quarantined := picture.journal.quarantined:
        found.append(Alert(f"{counted(quarantined, 'frame')} quarantined"))
    if dropped := _dropped(picture.sources):
        found.append(Alert(dropped, "warn"))
    return tuple(_named_once(found, picture.run_dir_there))


def missing_ranks(picture: Picture) -> str:
    """``n = 3 of 4 ranks, missing 2``, empty if all ranks were in the newest update."""
    if picture.ranks_reported >= picture.ranks_expected:
        return ""
    counted = f"n = {picture.ranks_reported} of {picture.ranks_expected} ranks"
    return f"{counted}, missing {_listed(map(str, picture.missing_ranks)) or 'unknown'}"


def cut_off(gone: tuple[str, ...], run_dir: str) -> str:
    """What is to be said of a run on which nobody is at work, with what completes it."""
    names = f" (gone: {_listed(map(clean, gone))})" if gone else ""
    command = f"unilab-metrics recover {shlex.quote(run_dir or 'RUN_DIR')}"
    return f"nobody on this machine is at work on it{names}; `{clean(command)}` completes it"


def _of_sources(picture: Picture) -> list[Alert]:
    silent = [source for source in picture.sources if source.state == "silent"]
    skewed = [source for source in picture.sources if abs(source.clock_skew_s) >= SKEW_S]
    found: list[Alert] = []
    if silent:
        named = (f"{_place(one)} for {formatting.age(one.age_s)}" for one in silent)
        found.append(Alert("silent: " + _listed(named), "warn"))
    if skewed:
        named = (f"{_place(one)} {one.clock_skew_s:+.0f} s" for one in skewed)
        found.append(Alert("clocks differ: " + _listed(named), "warn"))
    return found


def _of_troubles(picture: Picture) -> list[Alert]:
    """Each with whom it meets: it costs no frame, but only a person can end it."""
    places: dict[str, list[str]] = {}
    for trouble in picture.troubled:
        often = f" ({trouble.times:,} times)" if trouble.times > 1 else ""
        places.setdefault(trouble.name, []).append(f"{clean(trouble.place)}{often}")
    return [Alert(f"{clean(name)}: {_listed(who)}", "warn") for name, who in places.items()]


def _losses(picture: Picture) -> list[Alert]:
    """Each with the last word about its end if there is one, the others by their names; none if
    the end of the run names them."""
    lost = [source for source in picture.sources if source.state == "lost"]
    if picture.ended_text:
        return []
    told: list[str] = []
    others: list[str] = []
    for source in lost:
        start = f"{source.key.place} ("
        texts = [n.text for n in picture.notes if n.kind == "lost" and n.text.startswith(start)
                 and is_current(n, picture)]  # fmt: skip
        if texts and len(told) < _MOST_NAMED:
            told.append(clean(texts[-1]))
        else:
            others.append(_place(source))
    return [Alert(text) for text in told] + ([Alert(f"lost: {_listed(others)}")] if others else [])


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


def _dropped(sources: Iterable[SourceStatus]) -> str:
    """What was not logged, or found no room in the run, and whose it was; empty for nothing."""
    counts: dict[str, int] = {}
    places: dict[str, list[str]] = {}
    for source in sources:
        for reason, count in source.drops.items():
            if count:
                counts[reason] = counts.get(reason, 0) + count
                places.setdefault(reason, []).append(_place(source))
    texts = (f"{n:,} {clean(reason)} ({_listed(places[reason])})" for reason, n in counts.items())
    return f"dropped: {_listed(texts)}" if counts else ""


def _of_writers(picture: Picture) -> list[Alert]:
    found: list[Alert] = []
    for backend in picture.backends:
        name = f"writer of {clean(backend.name)}"
        text = f": {clean(backend.text)}" if backend.text else ""
        if backend.state not in _WELL:
            style: Literal["warn", "bad"] = "bad" if backend.state == "failed" else "warn"
            found.append(Alert(f"{name} {clean(backend.state)}{text}", style))
        elif is_silent(backend):
            found.append(Alert(f"{name} silent for {formatting.age(backend.age_s)}", "warn"))
        behind = picture.journal.update - backend.update
        if behind > max(_BEHIND_UPDATES, _BEHIND_WINDOWS * picture.samples):
            found.append(Alert(f"{name} is {counted(behind, 'update')} behind", "warn"))
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


def _place(source: SourceStatus) -> str:
    return clean(source.key.place)


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - _MOST_NAMED
    return ", ".join(shown[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
