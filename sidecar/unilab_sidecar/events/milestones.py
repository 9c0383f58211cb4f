"""Starts and ends of a run's attempts, and why one has ended: what no event says by itself. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from unilab_metrics.outcome import FAILED, STOPPED
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.picture import Note, Picture

KEPT = 20
_DECIDES = SourceKey(0, LEARNER)
_CAUSE = re.compile(r"learner of rank 0 (?:failed|stopped): (.+)", re.DOTALL)
_STOPPED = re.compile(r"learner of rank 0 (?:failed|stopped): (KeyboardInterrupt)\b")


class _Milestone(NamedTuple):
    attempt: int
    kind: str
    text: str
    unix_ns: int
    iteration: int | None = None


class Milestones:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._all: deque[_Milestone] = deque(maxlen=KEPT)
        self._causes: dict[int, str] = {}

    def heed(self, entry: object, iteration: int | None) -> None:
        """Takes the next entry of the history, and the newest iteration before it."""
        if isinstance(entry, AttemptOpened):
            self._all.append(
                _Milestone(entry.attempt, "start", _name(entry.attempt), entry.unix_ns)
            )
            return
        if self._all and self._all[-1].kind != "start":
            # What follows the end takes it back.
            self._all.pop()
        if isinstance(entry, RunEnded):
            self._all.append(self._end(entry, iteration))
        elif isinstance(entry, EventUpdate) and entry.source == _DECIDES:
            frame = entry.frame
            if frame.kind == "status" and _CAUSE.fullmatch(frame.text):
                self._causes = {entry.attempt: frame.text}

    def earlier(self, entries: Iterable[object]) -> None:
        """Takes entries from before the first one that is here, in order."""
        before = Milestones()
        for entry in entries:
            before.heed(entry, None)
        known = {(one.attempt, one.kind) for one in self._all}
        older = [one for one in before._all if (one.attempt, one.kind) not in known]
        if older and older[-1].kind != "start" and not (self._all and self._all[0].kind == "start"):
            # What follows the end takes it back.
            older.pop()
        self._all = deque([*older, *self._all], maxlen=KEPT)
        self._causes = {**before._causes, **self._causes}

    def all(self, reference_unix_ns: int | None) -> tuple[Note, ...]:
        """Oldest first, with their ages at ``reference_unix_ns``."""
        return tuple(_note(one, reference_unix_ns) for one in self._all)

    def why(self, ended: RunEnded | None) -> str:
        """Why an attempt ended as it did, if somebody said it."""
        if ended is None or ended.text or ended.status == "completed":
            return "" if ended is None else ended.text
        return self._causes.get(ended.attempt, "")

    def _end(self, entry: RunEnded, iteration: int | None) -> _Milestone:
        began = next(
            (m for m in self._all if (m.attempt, m.kind) == (entry.attempt, "start")), None
        )
        text = _name(entry.attempt)
        if began is not None:
            text += f" after {formatting.duration((entry.unix_ns - began.unix_ns) / 1e9)}"
        text += f": {entry.text}" if entry.text else ""
        status = STOPPED if _STOPPED.match(self.why(entry)) else entry.status
        return _Milestone(entry.attempt, status, text, entry.unix_ns, iteration)


def stopped_by(picture: Picture) -> str:
    """By what the training was stopped on purpose; ``stopped`` if nobody says it, and empty if it
    was not."""
    # Older runs that somebody has ended say that they failed, with that cause.
    if picture.ended not in (FAILED, STOPPED):
        return ""
    if (found := _STOPPED.match(picture.ended_text)) is not None:
        return found[1]
    if picture.ended != STOPPED:
        return ""
    cause = _CAUSE.fullmatch(picture.ended_text)
    words = cause[1] if cause is not None else picture.ended_text.removeprefix("stopped by ")
    return clean(words.partition("\n")[0]) or STOPPED


def with_milestones(picture: Picture) -> list[Note]:
    """All that has happened, oldest first: an attempt's start before its events, its end after."""
    merged = list(picture.notes)
    for one in picture.milestones:
        if one.kind == "start":
            before = [n for n, note in enumerate(merged) if not 0 < note.attempt < one.attempt]
            merged.insert(before[0] if before else len(merged), one)
        else:
            after = [n for n, note in enumerate(merged) if note.attempt <= one.attempt]
            merged.insert(after[-1] + 1 if after else 0, one)
    return merged


def _name(attempt: int) -> str:
    return f"attempt {attempt}"


def _note(one: _Milestone, reference_unix_ns: int | None) -> Note:
    age_s = None
    if reference_unix_ns is not None:
        age_s = max(reference_unix_ns - one.unix_ns, 0) / 1e9
    return Note(one.kind, one.text, age_s, one.iteration, (), attempt=one.attempt)
