"""Events worth a line on the screen, and warm-up progress from status events. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from unilab_schema.alerts import ALERT
from unilab_schema.frames import EventFrame
from unilab_schema.identity import SourceKey
from unilab_schema.updates import EventUpdate
from unilab_sidecar.picture import Note, Progress

KEPT = 50
MAX_REFUSED = 64
_OWN_KINDS = frozenset({"status", "checkpoint", "training_started", "warning"})
_FACTS = 4
_QUIET_KINDS = frozenset({"config", "file", "summary"})
_WORDS = {"training_started": "training started", "checkpoint": "checkpoint saved"}


@dataclass(slots=True)
class _Entry:
    order: int
    attempt: int
    frame: EventFrame
    sources: set[SourceKey] = field(default_factory=set[SourceKey])


class Notes:
    """The last events of the run, oldest first: each once, whatever number of sources said it.

    What could not be logged is kept apart, and events of the training's own kinds: many of them
    must not push out the others.
    """

    def __init__(self) -> None:
        self._events: deque[_Entry] = deque(maxlen=KEPT)
        self._refusals: deque[_Entry] = deque(maxlen=KEPT)
        self._others: deque[_Entry] = deque(maxlen=KEPT)
        self._refused: dict[str, None] = {}
        self._refused_more = 0
        self._count = 0
        self._progress: Progress | None = None

    @property
    def progress(self) -> Progress | None:
        """The last one that a status event reported, ``None`` once training has started.

        A status event reports it as ``fill`` in its data, between 0 and 1.
        """
        return self._progress

    @property
    def refused(self) -> tuple[str, ...]:
        """Names of what could not be logged, in the order in which that was reported."""
        return tuple(self._refused)

    @property
    def refused_more(self) -> int:
        """Reports about names beyond the first :data:`MAX_REFUSED`."""
        return self._refused_more

    def add(self, event: EventUpdate) -> None:
        """Takes the next event; configuration, summaries and files are not for the screen."""
        frame = event.frame
        if frame.kind == "training_started":
            self._progress = None
        elif frame.kind == "status":
            self._progress = _progress(frame) or self._progress
        if frame.kind in _QUIET_KINDS and event.source is not None:
            return
        if _is_refusal(frame):
            self._refuse(frame.text.partition(": ")[0])
            self._keep(self._refusals, event)
        elif frame.kind in _OWN_KINDS or event.source is None:
            self._keep(self._events, event)
        else:
            self._keep(self._others, event)

    def earlier(self, entries: Iterable[object]) -> None:
        """Takes the events among entries from before the first one that is here, in order."""
        before = Notes()
        for entry in entries:
            if isinstance(entry, EventUpdate):
                before.add(entry)
        for kept, older in (
            (self._events, before._events),
            (self._refusals, before._refusals),
            (self._others, before._others),
        ):
            for one in reversed(older):
                if len(kept) == KEPT:
                    break
                one.order -= before._count
                kept.appendleft(one)
        names = dict.fromkeys((*before._refused, *self._refused))
        beyond = max(len(names) - MAX_REFUSED, 0)
        self._refused = dict.fromkeys(list(names)[:MAX_REFUSED])
        self._refused_more += before._refused_more + beyond

    def started(self) -> None:
        """An update is there, so warm-up is over."""
        self._progress = None

    def all(self, reference_unix_ns: int | None) -> tuple[Note, ...]:
        """The notes with their ages at ``reference_unix_ns``, on the aggregator's wall clock."""
        entries = sorted(
            (*self._events, *self._refusals, *self._others), key=lambda entry: entry.order
        )
        return tuple(_note(entry, reference_unix_ns) for entry in entries)

    def _keep(self, entries: deque[_Entry], event: EventUpdate) -> None:
        frame, source = event.frame, event.source
        if source is not None:
            for known in reversed(entries):
                same = known.frame.kind == frame.kind and known.frame.text == frame.text
                if same and known.attempt == event.attempt:
                    if known.sources and source not in known.sources:
                        known.sources.add(source)
                        return
                    break
        self._count += 1
        entries.append(_Entry(self._count, event.attempt, frame))
        if source is not None:
            entries[-1].sources.add(source)

    def _refuse(self, name: str) -> None:
        if name in self._refused:
            return
        if len(self._refused) < MAX_REFUSED:
            self._refused[name] = None
        else:
            self._refused_more += 1


def _is_refusal(frame: EventFrame) -> bool:
    is_about_helper = "helper" in frame.data
    has_reason = bool(frame.data.get("reason")) and not is_about_helper
    return frame.kind == "warning" and has_reason and bool(frame.text)


def _note(entry: _Entry, reference_unix_ns: int | None) -> Note:
    frame = entry.frame
    age_s = None
    if reference_unix_ns is not None:
        age_s = max(reference_unix_ns - frame.unix_ns, 0) / 1e9
    return Note(
        frame.kind,
        frame.text or _WORDS.get(frame.kind) or _facts(frame) or frame.kind,
        age_s,
        frame.iteration,
        tuple(sorted({source.rank for source in entry.sources})),
        _is_refusal(frame),
        entry.attempt,
        _severity(frame),
    )


def _facts(frame: EventFrame) -> str:
    """What a training has told without a sentence."""
    return ", ".join(f"{name} {value}" for name, value in islice(frame.data.items(), _FACTS))


def _severity(frame: EventFrame) -> str:
    if frame.kind != ALERT:
        return ""
    return "warn" if frame.data.get("severity") == "warn" else "bad"


def _progress(frame: EventFrame) -> Progress | None:
    fill = frame.data.get("fill")
    if isinstance(fill, bool) or not isinstance(fill, int | float) or not math.isfinite(fill):
        return None
    return Progress(min(max(float(fill), 0.0), 1.0), frame.text)
