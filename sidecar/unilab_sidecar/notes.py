"""Events worth a line on the screen, and warm-up progress from status events. Pure."""

from __future__ import annotations

import math
from collections import deque

from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate
from unilab_sidecar.picture import Note, Progress

KEPT = 50
_SHOWN_KINDS = frozenset({"status", "checkpoint", "training_started", "warning"})
_WORDS = {"training_started": "training started", "checkpoint": "checkpoint saved"}


class Notes:
    """The last events of the run, oldest first."""

    def __init__(self) -> None:
        self._frames: deque[EventFrame] = deque(maxlen=KEPT)
        self._progress: Progress | None = None

    @property
    def progress(self) -> Progress | None:
        """The last one that a status event reported, ``None`` once training has started.

        A status event reports it as ``fill`` in its data, between 0 and 1.
        """
        return self._progress

    def add(self, event: EventUpdate) -> None:
        """Takes the next event; configuration, summaries and files are not for the screen."""
        frame = event.frame
        if frame.kind == "training_started":
            self._progress = None
        elif frame.kind == "status":
            self._progress = _progress(frame) or self._progress
        if frame.kind in _SHOWN_KINDS or event.source is None:
            self._frames.append(frame)

    def started(self) -> None:
        """An update is there, so warm-up is over."""
        self._progress = None

    def all(self, now_unix_ns: int | None) -> tuple[Note, ...]:
        """The notes with their ages at ``now_unix_ns``, on the aggregator's wall clock."""
        return tuple(
            Note(
                frame.kind,
                frame.text or _WORDS.get(frame.kind, frame.kind),
                None if now_unix_ns is None else max(now_unix_ns - frame.unix_ns, 0) / 1e9,
                frame.iteration,
            )
            for frame in self._frames
        )


def _progress(frame: EventFrame) -> Progress | None:
    fill = frame.data.get("fill")
    if isinstance(fill, bool) or not isinstance(fill, int | float) or not math.isfinite(fill):
        return None
    return Progress(min(max(float(fill), 0.0), 1.0), frame.text)
