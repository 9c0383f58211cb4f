"""Where losses, policy, training diagnostics and a few others have gone since this viewer looks. Pure.

A stretch of time is a point: its mean. Once there are too many, two become one and stretches last
twice as long, so that a week costs no more than a minute and changes ever more rarely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unilab_sidecar.groups import grouping
from unilab_sidecar.values.of_tags import MOST_KEY_SETS, OfTags
from unilab_sidecar.values.window import Values

STRETCH_NS = 2_000_000_000
"""At first; nothing on the screen changes more often."""
MOST_POINTS = 64
MOST_TAGS = 64
_GROUPS: tuple[grouping.Group, ...] = ("losses", "policy", "diagnostics", "ingress")
MOST_OTHERS = 32
"""More than a screen shows of them beside everything else: they take nobody's place above."""

_Places = npt.NDArray[np.intp]
Courses = dict[str, tuple[float, ...]]


@dataclass(slots=True)
class _KeySet:
    """Of updates with the same tags: which values belong where, and their sums since the last
    point."""

    tags: tuple[str, ...]
    places: _Places
    slots: _Places
    sums: Values
    count: int = 0


class MetricCourses:
    """One owner, no locks; memory is bounded. What was not finite leaves a gap."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._key_sets: dict[tuple[str, ...], _KeySet] = {}
        self._of_tags = OfTags(self._key_set)
        self._others = 0
        most = MOST_TAGS + MOST_OTHERS
        self._sums, self._counts = np.zeros(most), np.zeros(most)
        self._points = np.full((most, MOST_POINTS), np.nan)
        self._last_iterations: list[int] = []
        self._count = 0
        self._stretch_ns = STRETCH_NS
        self._began_mono_ns: int | None = None
        self._first: int | None = None
        self._open: int | None = None
        self._attempt_from = 0
        self._shown: Courses = {}
        self._is_changed = False

    @property
    def first(self) -> int | None:
        """The iteration from which on there are points."""
        return self._first

    def add(self, iteration: int, mono_ns: int, tags: tuple[str, ...], values: Values) -> None:
        """Takes an update. ``mono_ns``: when it was sealed."""
        if self._first is None:
            self._first = iteration
        if self._began_mono_ns is None or mono_ns < self._began_mono_ns:
            # Another node's clock cannot be compared with the old one.
            self._began_mono_ns = mono_ns
        self.supplement(tags, values)
        self._open = iteration
        if mono_ns - self._began_mono_ns >= self._stretch_ns:
            self._began_mono_ns = mono_ns
            self._close(iteration)

    def begin_attempt(self) -> None:
        """What follows is of another attempt, which may count the same iterations again: no point is
        of both."""
        if self._open is not None:
            self._close(self._open)
        self._began_mono_ns = None
        self._attempt_from = self._count

    def supplement(self, tags: tuple[str, ...], values: Values) -> None:
        """Values that came after their iteration was sealed."""
        known = self._of_tags.of(tags)
        with np.errstate(invalid="ignore", over="ignore"):
            known.sums += values[known.places]
        known.count += 1

    def all(self) -> Courses:
        """Tag to its points, oldest first; the caller must not change it."""
        if self._is_changed:
            self._is_changed = False
            self._shown = self._courses(self._count)
        return self._shown

    def until(self, iteration: int) -> Courses:
        """As they were at the end of an iteration of the newest attempt; points that go beyond it are
        left out."""
        of_attempt = self._last_iterations[self._attempt_from :]
        return self._courses(self._attempt_from + sum(last <= iteration for last in of_attempt))

    def _courses(self, count: int) -> Courses:
        points = self._points[:, :count]
        return {
            tag: tuple(row[np.isfinite(row)].tolist())
            for tag, row in ((tag, points[slot]) for tag, slot in self._slots.items())
        }

    def _key_set(self, tags: tuple[str, ...]) -> _KeySet:
        if (known := self._key_sets.get(tags)) is not None:
            return known
        if len(self._key_sets) >= MOST_KEY_SETS:
            # A stretch may be minutes long, and each update have tags of its own.
            self._gather()
            self._key_sets.clear()
            self._of_tags.forget()
        for tag in grouping.of_groups(_GROUPS, tags, MOST_TAGS):
            if len(self._slots) - self._others < MOST_TAGS:
                self._slots.setdefault(tag, len(self._slots))
        for tag in grouping.of_groups(("others",), tags, MOST_OTHERS):
            if self._others < MOST_OTHERS and tag not in self._slots:
                self._slots[tag] = len(self._slots)
                self._others += 1
        places = np.array([n for n, tag in enumerate(tags) if tag in self._slots], dtype=np.intp)
        slots = np.array([self._slots[tag] for tag in tags if tag in self._slots], dtype=np.intp)
        made = self._key_sets[tags] = _KeySet(tags, places, slots, np.zeros(len(places)))
        return made

    def _close(self, iteration: int) -> None:
        self._open = None
        self._gather()
        # A NaN or an infinity, or nothing at all, is a gap.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            self._points[:, self._count] = self._sums / self._counts
        self._sums[:], self._counts[:] = 0, 0
        self._count += 1
        self._last_iterations.append(iteration)
        self._is_changed = True
        if self._count == MOST_POINTS:
            self._halve()

    def _gather(self) -> None:
        """What has come since the last point, of all key sets."""
        with np.errstate(invalid="ignore", over="ignore"):
            for one in self._key_sets.values():
                self._sums[one.slots] += one.sums
                self._counts[one.slots] += one.count
                one.sums[:], one.count = 0, 0

    def _halve(self) -> None:
        first, second = self._points[:, 0::2], self._points[:, 1::2]
        with np.errstate(invalid="ignore", over="ignore"):
            mean = first / 2 + second / 2
        # Where one of two is missing, the other one stands for both.
        mean = np.where(np.isfinite(first), np.where(np.isfinite(second), mean, first), second)
        self._points[:, : MOST_POINTS // 2] = mean
        self._points[:, MOST_POINTS // 2 :] = np.nan
        self._count //= 2
        self._attempt_from //= 2
        self._last_iterations = self._last_iterations[1::2]
        self._stretch_ns *= 2
