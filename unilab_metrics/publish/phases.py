"""Where a loop's time goes: exclusive phases, details, and their values per report.

Exclusive phases are slices of one thread's timeline: entering one pauses the exclusive phase
around it, so that phases and the rest add up to the wall. Details (``exclusive=False`` in
the profile) run beside them and pause nothing. A learner reports the sum over the iteration
(of several that it reports as one, the mean of their sums, as the wall is), any other role the mean
per tick (or per occurrence while ``tick()`` is never called).

The clock is a parameter; apart from it nothing here looks outside. One thread owns it;
other threads use :meth:`PhaseClock.add_ns`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from unilab_metrics.publish.strict import PhaseNameError
from unilab_schema.identity import COLLECTOR, LEARNER
from unilab_schema.phases import (
    PhaseSpec,
    collector_phases,
    family_of,
    find_phase,
    learner_phases,
    phase_names,
    unlisted_phase,
)

_FAMILY_EXAMPLES = ("sac", "appo", "ppo")


@dataclass
class _Total:
    spec: PhaseSpec
    sum_ns: int = 0
    last_ns: int = 0
    count: int = 0

    def add(self, duration_ns: int) -> None:
        self.sum_ns += duration_ns
        self.last_ns = duration_ns
        self.count += 1


@dataclass
class _Running:
    total: _Total
    resumed_ns: int | None
    spent_ns: int = 0


class Phase:
    """The context manager that ``phase()`` returns; reusable and reentrant."""

    __slots__ = ("_clock", "_total")

    def __init__(self, clock: PhaseClock, total: _Total | None) -> None:
        self._clock = clock
        self._total = total

    def __enter__(self) -> None:
        if self._total is not None:
            self._clock.enter(self._total)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._total is not None:
            self._clock.leave(self._total)


class PhaseClock:
    """The phases of one loop. ``now_ns``: a monotonic clock."""

    def __init__(
        self,
        role: str,
        algorithm: str,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        tell: Callable[[str, str], None] = lambda _name, _text: None,
    ) -> None:
        """``tell``: of a phase that is not measured, and why."""
        self._role = role
        self._algorithm = algorithm
        self._now_ns = now_ns
        self._phases: dict[str, Phase] = {}
        self._totals: dict[str, _Total] = {}
        self._stack: list[_Running] = []
        self._measured_elsewhere: deque[tuple[str, int]] = deque()
        self._ticks = 0
        self._iterations = 0
        self.used = False
        """Whether any phase was ever asked for."""
        self._tell = tell
        self._has_own = False
        self._profile = (
            [spec for spec in learner_phases(algorithm) if spec.exclusive]
            if role == LEARNER
            else []
        )

    def phase(self, name: str, *, strict: bool = False) -> Phase:
        """The phase called ``name``, to be used in a ``with``.

        A name without a profile gets the tag ``Perf/<role>_<name>_ms``. A phase of another
        algorithm measures nothing. Raises :class:`PhaseNameError` in strict mode for both.
        """
        phase = self._phases.get(name)
        if phase is None:
            phase = Phase(self, self._total(name, strict=strict))
            self._phases[name] = phase
        return phase

    def _unknown(self) -> str:
        """Of a name without a profile: what it is not, and which ones there are."""
        names = phase_names(self._role, self._algorithm)
        there = f"it has {', '.join(names)}" if names else "it has none"
        algorithm = self._algorithm or "no algorithm"
        return f"no phase of a {self._role} of {algorithm}; {there}"

    def add_ns(self, name: str, duration_ns: int, *, strict: bool = False) -> None:
        """A duration that was measured elsewhere; from any thread. It pauses nothing."""
        span = (name, int(duration_ns))
        if name not in self._totals:
            self.phase(name, strict=strict)
        self._measured_elsewhere.append(span)

    def tick(self) -> None:
        """One vector step of the environments is done."""
        self._ticks += 1

    def start_iteration(self) -> None:
        """Forget exclusive time from before: it is not part of the iteration's wall. After an
        iteration that was not reported nothing is forgotten: the next report is of both."""
        self._iterations += 1
        if self._iterations > 1:
            return
        now = self._now_ns()
        for running in self._stack:
            running.spent_ns = 0
            if running.resumed_ns is not None:
                running.resumed_ns = now
        for total in self._totals.values():
            if total.spec.exclusive:
                total.sum_ns = total.count = 0

    def collect(self, now_ns: int) -> dict[str, float]:
        """The values since the last call, and a new start.

        A running exclusive phase is split here. Once a learner has measured any phase, each
        exclusive phase of its profile that did not happen is 0.0, so that means over ranks
        still add up to the wall. Not so one that the loop has never asked for while it measures
        phases of its own: there is no telling whether that one happened under another name.
        """
        if not self.used:
            self._ticks = self._iterations = 0
            return {}
        self._take_measured_elsewhere()
        for running in self._stack:
            if running.total.spec.exclusive:
                self._pause(running, now_ns)
                if running.spent_ns:
                    running.total.add(running.spent_ns)
                    running.spent_ns = 0
        self._resume_innermost(now_ns)
        known = self._totals if self._has_own else None
        values = {spec.tag: 0.0 for spec in self._profile if known is None or spec.name in known}
        for total in self._totals.values():
            if total.count:
                values[total.spec.tag] = self._value(total)
                total.sum_ns = total.count = 0
        self._ticks = self._iterations = 0
        return values

    def enter(self, total: _Total) -> None:
        """Called by :class:`Phase`."""
        now = self._now_ns()
        if total.spec.exclusive:
            outer = self._innermost_exclusive()
            if outer is not None:
                self._pause(outer, now)
        self._stack.append(_Running(total, now))

    def leave(self, total: _Total) -> None:
        """Called by :class:`Phase`."""
        now = self._now_ns()
        for at in range(len(self._stack) - 1, -1, -1):
            running = self._stack[at]
            if running.total is total:
                del self._stack[at]
                self._pause(running, now)
                total.add(running.spent_ns)
                break
        if total.spec.exclusive:
            self._resume_innermost(now)

    def _total(self, name: str, *, strict: bool) -> _Total | None:
        spec = find_phase(self._role, name, self._algorithm)
        if spec is None:
            if strict:
                raise PhaseNameError(f"{name!r} is {self._unknown()}")
            if _belongs_to_another(self._role, name, self._algorithm):
                self._tell(name, f"not measured, {self._unknown()}")
                return None
            spec = unlisted_phase(self._role, name)
            self._has_own = True
        total = self._totals.get(name)
        if total is None:
            total = self._totals[name] = _Total(spec)
            self.used = True
        return total

    def _value(self, total: _Total) -> float:
        spec = total.spec
        if spec.over_iteration == "last":
            return spec.from_ns(total.last_ns)
        if spec.over_iteration == "mean":
            return spec.from_ns(total.sum_ns / (self._ticks or total.count))
        return spec.from_ns(total.sum_ns / (self._iterations or 1))

    def _take_measured_elsewhere(self) -> None:
        while self._measured_elsewhere:
            name, duration_ns = self._measured_elsewhere.popleft()
            total = self._totals.get(name)
            if total is not None:
                total.add(duration_ns)

    def _innermost_exclusive(self) -> _Running | None:
        for running in reversed(self._stack):
            if running.total.spec.exclusive:
                return running
        return None

    def _resume_innermost(self, now_ns: int) -> None:
        inner = self._innermost_exclusive()
        if inner is not None and inner.resumed_ns is None:
            inner.resumed_ns = now_ns

    @staticmethod
    def _pause(running: _Running, now_ns: int) -> None:
        if running.resumed_ns is not None:
            running.spent_ns += now_ns - running.resumed_ns
            running.resumed_ns = None


def _belongs_to_another(role: str, name: str, algorithm: str) -> bool:
    if family_of(algorithm) == "unknown":
        return False
    table = {LEARNER: learner_phases, COLLECTOR: collector_phases}.get(role)
    if table is None:
        return False
    return any(spec.name == name for other in _FAMILY_EXAMPLES for spec in table(other))
