"""Which sources live and log nothing. Pure; time is passed in.

A process that is stopped says nothing either, and is not lost while its lease is held.
An evaluation, a checkpoint or a long iteration is no stall. So a source has stalled after two
minutes without a frame at the least, after twenty times its usual time between frames, and after
three times its longest pause so far; and only once it has logged ten times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from unilab_metrics.aggregate.alerting.change import Change
from unilab_schema.frames import Scalar

LEAST_S = 120.0
USUAL_TIMES = 20.0
LONGEST_TIMES = 3.0
LEAST_FRAMES = 10
HEARD_WITHIN_S = 10.0
RULE = "stalled"
_KEPT = 32


class Seen(NamedTuple):
    """A live source: frames so far and how long ago anything at all came of it."""

    subject: str
    frames: int
    heard_age_s: float
    last_iteration: int | None


@dataclass(slots=True)
class _Course:
    frames: int
    since_s: float
    began_frames: int
    gaps_s: deque[float] = field(default_factory=lambda: deque[float](maxlen=_KEPT))
    longest_s: float = 0.0
    is_stalled: bool = False


class Stalls:
    """Owned by the aggregator's main thread. Forgets at a restart what was usual, so that it is
    patient anew."""

    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def resumed(self, paused_s: float) -> None:
        """We ourselves stood still for so long."""
        for course in self._courses.values():
            course.since_s += paused_s

    def look(self, now_s: float, sources: Iterable[Seen], opened: frozenset[str]) -> list[Change]:
        """What has changed. ``opened``: subjects whose alert is open, perhaps since before us."""
        changes: list[Change] = []
        alive: set[str] = set()
        for seen in sources:
            alive.add(seen.subject)
            course = self._courses.get(seen.subject)
            if course is None:
                is_stalled = seen.subject in opened
                self._courses[seen.subject] = _Course(
                    seen.frames, now_s, seen.frames, is_stalled=is_stalled
                )
            elif (changed := _follow(course, seen, now_s)) is not None:
                changes.append(changed)
        for subject in [*self._courses]:
            if subject not in alive:
                del self._courses[subject]
        gone = sorted(opened - alive)
        return changes + [Change(RULE, s, f"{s} is not waited for any more", False) for s in gone]


def _follow(course: _Course, seen: Seen, now_s: float) -> Change | None:
    silent_s = now_s - course.since_s
    new = seen.frames - course.frames
    if new > 0:
        if course.frames > course.began_frames:
            course.gaps_s.append(silent_s / new)
            course.longest_s = max(course.longest_s, silent_s if new == 1 else silent_s / new)
        course.frames, course.since_s = seen.frames, now_s
        if not course.is_stalled:
            return None
        course.is_stalled = False
        return Change(RULE, seen.subject, f"{seen.subject} logs again", began=False)
    if course.is_stalled:
        return None
    if course.frames - course.began_frames < LEAST_FRAMES or not course.gaps_s:
        return None
    usual_s = median(course.gaps_s)
    if silent_s < max(LEAST_S, USUAL_TIMES * usual_s, LONGEST_TIMES * course.longest_s):
        return None
    course.is_stalled = True
    is_heard = seen.heard_age_s <= HEARD_WITHIN_S
    what = "is alive and has logged nothing" if is_heard else "says nothing at all"
    text = f"{seen.subject} {what} for {silent_s:.0f} s"
    if seen.last_iteration is not None:
        text += f", last at iteration {seen.last_iteration}"
    facts: dict[str, Scalar] = {
        "severity": "bad",
        "silent_s": round(silent_s, 1),
        "usual_s": round(usual_s, 3),
        "is_heard": is_heard,
    }
    return Change(RULE, seen.subject, f"{text} (usually every {usual_s:.3g} s)", True, facts)
