"""Whether the mean reward has collapsed: a rule on its own course, without a unit. Pure.

The level is the median of the last 25 reports. Progress is what the highest level gained over the
lowest one before it; there is none before that is more than six times the usual deviation at the
peak, and then nothing can collapse. Reports are below when the level has lost more than half of the
progress, more than six times the usual deviation at the peak, and more than a quarter of the peak's
size. A collapse is 50 reports below in a row that last 10 s; it is over when less than a quarter of
the progress is missing. Nothing is said within the first 200 reports.
"""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple

import msgspec

LEVEL_REPORTS = 25
FIRST_REPORTS = 200
PATIENCE_REPORTS = 50
PATIENCE_S = 10.0
LOST_PROGRESS = 0.5
RECOVERED_PROGRESS = 0.25
DEVIATIONS = 6.0
PEAK_SHARE = 0.25


class CollapseState(msgspec.Struct, array_like=True):
    """What the rule remembers. ``deviation``: median distance from the level at the peak."""

    recent: list[float] = []
    reports: int = 0
    lowest: float = math.inf
    peak: float = -math.inf
    lowest_before_peak: float = math.inf
    deviation: float = 0.0
    below: int = 0
    below_since_ns: int = 0
    is_collapsed: bool = False


class Collapse(NamedTuple):
    """A change: ``began`` or not, with the level then and the peak before."""

    began: bool
    level: float
    peak: float


def take_reward(state: CollapseState, reward: float, mono_ns: int) -> Collapse | None:
    """Take the next report in; what changed by it. What is not finite counts for nothing."""
    if not math.isfinite(reward):
        return None
    state.reports += 1
    state.recent.append(reward)
    del state.recent[:-LEVEL_REPORTS]
    if len(state.recent) < LEVEL_REPORTS:
        return None
    level = median(state.recent)
    state.lowest = min(state.lowest, level)
    if level > state.peak:
        state.peak = level
        state.lowest_before_peak = state.lowest
        state.deviation = median(abs(value - level) for value in state.recent)
    progress = state.peak - state.lowest_before_peak
    lost = state.peak - level
    if state.is_collapsed:
        if lost > RECOVERED_PROGRESS * progress:
            return None
        state.is_collapsed, state.below = False, 0
        return Collapse(began=False, level=level, peak=state.peak)
    least = max(
        LOST_PROGRESS * progress, DEVIATIONS * state.deviation, PEAK_SHARE * abs(state.peak)
    )
    has_gained = progress > DEVIATIONS * state.deviation
    if not has_gained or lost <= least:
        state.below = 0
        return None
    if not state.below or state.below_since_ns > mono_ns:
        state.below_since_ns = mono_ns
    state.below += 1
    has_lasted = mono_ns - state.below_since_ns >= PATIENCE_S * 1e9
    if state.below < PATIENCE_REPORTS or not has_lasted or state.reports < FIRST_REPORTS:
        return None
    state.is_collapsed = True
    return Collapse(began=True, level=level, peak=state.peak)
