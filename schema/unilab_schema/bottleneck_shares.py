"""What the bottleneck's rules read: phases with their shares of the clock that they lie on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from unilab_schema.phases import (
    PhaseSpec,
    collector_phases,
    family_of,
    learner_phases,
)
from unilab_schema.timing import ITER_WALL, collector_cycle_ms, learner_timeline

COLLECTOR_CYCLE = "cycle"
_FULLEST_PROFILE = "sac"
_INGRESS_DEPTH = "Train/replay_ingress_depth"
_INGRESS_OCCUPANCY = "Train/replay_ingress_occupancy"


class Share(NamedTuple):
    """A phase's milliseconds and its percentage of ``whole``, ``None`` where its clock has no
    total: APPO's collector reports three values that are no decomposition. ``is_beside``: it runs
    in the background, so that the percentage says how long it is and not what is lost."""

    label: str
    short_label: str
    ms: float
    percent: float | None
    whole: str
    is_beside: bool = False

    @property
    def text(self) -> str:
        """``Collector Wait 31.2 ms, 61.4 % of Iter Wall``."""
        ms = f"{self.label} {milliseconds(self.ms)} ms"
        if self.is_beside:
            told = f"{ms} in the background"
            return told if self.percent is None else f"{told}, as long as {self._of_whole(1)}"
        return ms if self.percent is None else f"{ms}, {self._of_whole(1)}"

    def _of_whole(self, decimals: int) -> str:
        return f"{percent(self.percent or 0.0, decimals)} of {self.whole}"

    def brief(self, *, short: bool = False) -> str:
        """``Collector Wait 61 % of Iter Wall`` for narrow screens, ``short`` with the short
        label."""
        label = self.short_label if short else self.label
        if self.is_beside:
            return f"{label} {milliseconds(self.ms)} ms beside"
        if self.percent is None:
            return f"{label} {milliseconds(self.ms)} ms"
        # What is nearly everything is not called everything.
        decimals = 1 if 99.0 < self.percent < 100.0 else 0
        return f"{label} {self._of_whole(decimals)}"


class Shares(NamedTuple):
    """Finite values only, each at most once: a NaN is as good as a missing tag."""

    by_learner: Mapping[str, Share]
    by_collector: Mapping[str, Share]
    is_appo: bool
    ingress_occupancy: float | None
    ingress_depth: float | None

    def learner(self, phase: str) -> Share | None:
        """Of the iteration wall, by the phase's name."""
        return self.by_learner.get(phase)

    def collector(self, phase: str) -> Share | None:
        """Of the collector's own cycle, by the phase's name."""
        return self.by_collector.get(phase)


def read_shares(values: Mapping[str, float], algorithm: str) -> Shares | None:
    """The shares of a run, ``None`` without a wall; an on-policy one has but its two slices."""
    family = family_of(algorithm)
    # An algorithm without a profile of its own may use every known phase.
    profile = algorithm if family != "unknown" else _FULLEST_PROFILE
    wall_ms = learner_timeline(values, algorithm).wall_ms
    if not (math.isfinite(wall_ms) and wall_ms > 0):
        return None
    cycle_ms = collector_cycle_ms(values, algorithm)
    return Shares(
        _shares(values, learner_phases(profile), wall_ms, ITER_WALL),
        _shares(values, collector_phases(profile), cycle_ms, COLLECTOR_CYCLE),
        family == "appo",
        _finite(values.get(_INGRESS_OCCUPANCY)),
        _finite(values.get(_INGRESS_DEPTH)),
    )


def milliseconds(ms: float) -> str:
    """With one decimal, two below 10."""
    if not abs(ms) < 1e7:
        return f"{ms:.1e}"
    return f"{ms:,.2f}" if abs(ms) < 10 else f"{ms:,.1f}"


def percent(share: float, decimals: int) -> str:
    """With ``decimals``, and in powers of ten what no screen has room for."""
    return f"{share:.{decimals}f} %" if abs(share) < 1e5 else f"{share:.1e} %"


def _shares(
    values: Mapping[str, float],
    phases: tuple[PhaseSpec, ...],
    whole_ms: float | None,
    whole: str,
) -> dict[str, Share]:
    has_whole = whole_ms is not None and math.isfinite(whole_ms) and whole_ms > 0
    found: dict[str, Share] = {}
    for phase in phases:
        if phase.tag not in values:
            continue
        ms = phase.to_ms(values[phase.tag])
        if math.isfinite(ms):
            share = ms / whole_ms * 100.0 if has_whole and whole_ms is not None else None
            found[phase.name] = Share(phase.label, phase.short_label, ms, share, whole)
    return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
