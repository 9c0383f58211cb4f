"""Where the figures of the bus have gone since this viewer looks: rates, queues, delays. Pure.

They come from the announcements, of which one a second counts. Once there are too many points, two
become one and points last twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from unilab_schema.control import BackendStatus, Head

UPDATES_PER_S = "updates/s"
FRAMES_PER_S = "frames/s"
BACKLOG = "backlog"
ACK_MS = "ack ms"
LOG_US = "log us"
NOT_DURABLE = "not durable"
BEHIND = "behind/"
"""Followed by a backend's name; in updates."""
MOST_POINTS = 120
_MOST_BACKENDS = 16


@dataclass(frozen=True, slots=True)
class BusCourses:
    """``points``: by name, oldest first, one each ``apart_s`` seconds."""

    points: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    apart_s: float = 1.0

    def now(self, name: str) -> float | None:
        """The newest point, if there is one."""
        course = self.points.get(name)
        return course[-1] if course else None

    def covered_s(self, name: str) -> float:
        """How long ago the oldest point was, in seconds."""
        return len(self.points.get(name, ())) * self.apart_s


class BusCourse:
    """Follows the announcements. One owner, no locks; memory is bounded."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._points: dict[str, list[float]] = {}
        self._apart_s = 1.0
        self._shown: BusCourses | None = BusCourses()

    def heed(self, head: Head) -> None:
        """Takes an announcement; what comes less than a point's length after the last one that
        counted is left out."""
        known = self._head
        if known is None or known.epoch != head.epoch or head.mono_ns < known.mono_ns:
            # Another aggregator's clock and counters cannot be compared with the old ones.
            self._head = head
            return
        apart_s = (head.mono_ns - known.mono_ns) / 1e9
        if apart_s < self._apart_s * (1 - 1e-6):
            return
        for name, value in _figures(known, head, apart_s).items():
            self._points.setdefault(name, []).append(value)
        self._head, self._shown = head, None
        if max(map(len, self._points.values()), default=0) >= MOST_POINTS:
            self._points = {name: _halved(some) for name, some in self._points.items()}
            self._apart_s *= 2

    def all(self) -> BusCourses:
        """The points so far; the same object until there is one more."""
        if self._shown is None:
            points = {name: tuple(some) for name, some in self._points.items()}
            self._shown = BusCourses(points, self._apart_s)
        return self._shown


def has_position(backend: BackendStatus) -> bool:
    """Whether its writer has said where it is: one that has just been started has not."""
    return backend.state != "starting"


def _figures(before: Head, head: Head, apart_s: float) -> dict[str, float]:
    frames = sum(source.cursor for source in head.sources)
    frames -= sum(source.cursor for source in before.sources)
    found = {
        UPDATES_PER_S: max(head.update - before.update, 0) / apart_s,
        FRAMES_PER_S: max(frames, 0) / apart_s,
        NOT_DURABLE: float(max(head.update - head.durable, 0)),
    }
    said = [source.figures for source in head.sources if source.figures is not None]
    if said:
        found[BACKLOG] = float(sum(figures.backlog for figures in said))
        latencies = [one.ack_latency_ms for one in said if one.ack_latency_ms is not None]
        if latencies:
            found[ACK_MS] = max(latencies)
        said_before = [source.figures for source in before.sources if source.figures is not None]
        calls = sum(one.log_calls for one in said) - sum(one.log_calls for one in said_before)
        log_ns = sum(one.log_ns for one in said) - sum(one.log_ns for one in said_before)
        if calls > 0 and log_ns >= 0:
            found[LOG_US] = log_ns / calls / 1e3
    for backend in head.backends[:_MOST_BACKENDS]:
        if has_position(backend):
            found[f"{BEHIND}{backend.name}"] = float(max(head.update - backend.update, 0))
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _halved(points: list[float]) -> list[float]:
    even = len(points) // 2 * 2
    pairs = zip(points[0:even:2], points[1:even:2], strict=True)
    return [first / 2 + second / 2 for first, second in pairs]
