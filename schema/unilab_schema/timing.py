"""The learner's and the collector's timeline as rows, from the values of tags.

Two clocks, never added: the learner's rows are slices of its iteration wall, the collector's
of its own cycle. Everything derived here (Other, percentages, the cycle) is for a screen and
is never persisted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unilab_schema.phases import (
    ITERATION_WALL,
    PhaseSpec,
    collector_phases,
    collector_rows,
    family_of,
    find_phase,
    is_of_its_own,
    learner_phases,
    learner_slices,
)

__all__ = [
    "ITERATION_WALL",
    "ITER_WALL",
    "OTHER",
    "QUIET_PERCENT",
    "CollectorTimeline",
    "LearnerTimeline",
    "PhaseSpec",
    "Row",
    "collector_active_rate",
    "collector_cycle_ms",
    "collector_phases",
    "collector_row",
    "collector_rows",
    "collector_timeline",
    "family_of",
    "find_phase",
    "learner_other_ms",
    "learner_phases",
    "learner_timeline",
]

OTHER = "Other"
ITER_WALL = "Iter Wall"
QUIET_PERCENT = 1.0
"""Quiet rows appear from this share of the cycle on, inclusive."""

_TOLERANCE = 0.005
_TOLERANCE_MS = 0.01
_CORE = frozenset({"learner_action_wait", "env_step", "replay_write"})
_TICK_START = "Perf/collector_"
_REQUIRED = _CORE | {"inference_request"}


class Row(NamedTuple):
    """A line of a timeline. ``tag`` is empty for what is derived; ``ms`` is ``None`` where the
    collector has not reported a row that is always shown; ``percent`` is ``None`` where there
    is nothing to divide by. ``detail``: in no sum. ``own``: a detail of the user's that no row
    contains."""

    label: str
    short_label: str
    tag: str
    ms: float | None
    percent: float | None
    detail: bool = False
    own: bool = False


class LearnerTimeline(NamedTuple):
    """``rows`` end with Other and Iter Wall. ``accounted_percent`` beyond 100 means that
    phases overlap, which is a fault of the instrumentation: ``over_accounted``, with a
    tolerance for rounding."""

    rows: tuple[Row, ...]
    wall_ms: float
    accounted_ms: float
    accounted_percent: float | None
    over_accounted: bool


class CollectorTimeline(NamedTuple):
    """``cycle_ms`` is ``None`` where the algorithm has no cycle or a part of it is ``missing``."""

    rows: tuple[Row, ...]
    cycle_ms: float | None
    missing: tuple[PhaseSpec, ...] = ()


def learner_timeline(
    values: Mapping[str, float], algorithm: str, *, other_ms: float | None = None
) -> LearnerTimeline:
    """Rows of one update, or of means over several.

    ``values``: tag to value in the tag's own unit. ``other_ms``: the mean of the updates'
    :func:`learner_other_ms`, since Other is clamped per update before it is averaged; by
    default it is computed from ``values``. Without ``Perf/iteration_time`` the wall is what
    the phases account for.
    """
    slices = [(phase, phase.to_ms(values[phase.tag])) for phase in _present(values, algorithm)]
    accounted_ms = sum(ms for _, ms in slices)
    wall_ms = values[ITERATION_WALL] * 1e3 if ITERATION_WALL in values else accounted_ms
    if other_ms is None:
        other_ms = max(wall_ms - accounted_ms, 0.0)
    rows = [
        Row(phase.label, phase.short_label, phase.tag, ms, _percent(ms, wall_ms))
        for phase, ms in slices
    ]
    rows.append(Row(OTHER, OTHER, "", other_ms, _percent(other_ms, wall_ms)))
    rows.append(Row(ITER_WALL, "Wall", ITERATION_WALL, wall_ms, _percent(wall_ms, wall_ms)))
    return LearnerTimeline(
        tuple(rows),
        wall_ms,
        accounted_ms,
        _percent(accounted_ms, wall_ms),
        accounted_ms > wall_ms * (1 + _TOLERANCE) + _TOLERANCE_MS,
    )


def learner_other_ms(values: Mapping[str, float], algorithm: str) -> float | None:
    """The part of one update's wall that no phase names, never below 0; ``None`` without a
    measured wall."""
    if ITERATION_WALL not in values:
        return None
    accounted_ms = sum(phase.to_ms(values[phase.tag]) for phase in _present(values, algorithm))
    return max(values[ITERATION_WALL] * 1e3 - accounted_ms, 0.0)


def collector_timeline(values: Mapping[str, float], algorithm: str) -> CollectorTimeline:
    """Rows of the collector's own clock.

    Off-policy: percentages of the cycle; Learner Action Wait, Env Step and Replay Write are
    always there, as are phases of the user's own, the other rows from 1 % of the cycle on. APPO:
    its three values, which are no decomposition and have no percentages, nor have those of an
    algorithm without a profile, which are what it reports. A user's own are in no sum. Empty for
    an algorithm without a collector but for these, and while no collector has reported.
    """
    family = family_of(algorithm)
    phases = collector_rows(algorithm, values)
    profile = collector_phases(algorithm)
    if not any(phase.tag in values for phase in profile):
        # What is missing of a cycle of which nobody times anything need not be said.
        there = [phase for phase in phases if phase.tag in values]
        return CollectorTimeline(tuple(collector_row(p, phases, values, None) for p in there), None)
    cycle_ms = collector_cycle_ms(values, algorithm)
    rows: list[Row] = []
    for phase in phases:
        row = collector_row(phase, phases, values, cycle_ms)
        is_usual = family != "off_policy" or phase.name in _CORE or phase not in profile
        if is_usual or _is_loud(row.percent):
            rows.append(row)
    is_cycle = family == "off_policy"
    missing = [p for p in profile if is_cycle and p.name in _REQUIRED and p.tag not in values]
    return CollectorTimeline(tuple(rows), cycle_ms, tuple(missing))


def collector_row(
    phase: PhaseSpec,
    phases: Sequence[PhaseSpec],
    values: Mapping[str, float],
    cycle_ms: float | None,
) -> Row:
    """One of the ``phases`` of :func:`~unilab_schema.phases.collector_rows` and its share of the
    cycle."""
    ms = _ms(phase, values)
    percent = None if ms is None or cycle_ms is None else _percent(ms, cycle_ms)
    is_own = is_of_its_own(phase, phases)
    # The rollout of APPO has no share of anything: it is no detail of the step above it.
    is_detail = not phase.exclusive and (is_own or phase.tag.startswith(_TICK_START))
    return Row(phase.label, phase.short_label, phase.tag, ms, percent, is_detail, is_own)


def collector_cycle_ms(values: Mapping[str, float], algorithm: str) -> float | None:
    """Sum of the phases of one tick, or ``None`` if one of the four that every collector
    reports is missing; Transition Extract and Metrics Publish join when present."""
    if family_of(algorithm) != "off_policy":
        return None
    total = 0.0
    for phase in collector_phases(algorithm):
        if not phase.exclusive:
            continue
        if phase.tag in values:
            total += values[phase.tag]
        elif phase.name in _REQUIRED:
            return None
    return total


def collector_active_rate(
    values: Mapping[str, float], algorithm: str, *, environments: int, steps_per_env: int = 1
) -> float | None:
    """Environment steps per second while a collector works, its wait for the learner left out.

    Off-policy: ``environments`` over request + env step + write. APPO: the steps of a rollout
    over its wall. ``None`` if a part is missing or the time is 0.
    """
    steps, busy_ms = environments, 0.0
    if family_of(algorithm) == "appo":
        names = {"rollout"}
        steps *= steps_per_env
    else:
        names = _REQUIRED - {"learner_action_wait"}
    for phase in collector_phases(algorithm):
        if phase.name in names:
            ms = _ms(phase, values)
            if ms is None:
                return None
            busy_ms += ms
    return steps / busy_ms * 1e3 if busy_ms > 0 else None


def _present(values: Mapping[str, float], algorithm: str) -> list[PhaseSpec]:
    return [phase for phase in learner_slices(algorithm, values) if phase.tag in values]


def _ms(phase: PhaseSpec, values: Mapping[str, float]) -> float | None:
    return phase.to_ms(values[phase.tag]) if phase.tag in values else None


def _percent(part_ms: float, whole_ms: float) -> float | None:
    return part_ms / whole_ms * 100.0 if whole_ms > 0 else None


def _is_loud(percent: float | None) -> bool:
    # The last bit of a sum of phases must not decide about a row at exactly 1 %.
    return percent is not None and percent >= QUIET_PERCENT - 1e-9
