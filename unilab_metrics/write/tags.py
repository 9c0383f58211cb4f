"""Which tags reach a backend: not the terminal's own, not the phases of other algorithms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unilab_schema.metrics import MetricTable
from unilab_schema.phases import collector_phases, family_of, learner_phases

_ALGORITHM_OF_FAMILY = ("sac", "appo", "ppo")
_MAX_KEY_SETS = 4096


def phase_tags(algorithm: str) -> frozenset[str]:
    """Tags of the phases in an algorithm's own profile."""
    phases = (*learner_phases(algorithm), *collector_phases(algorithm))
    return frozenset(phase.tag for phase in phases)


def foreign_phase_tags(algorithm: str) -> frozenset[str]:
    """Phase tags of the other algorithms; empty for an algorithm without a profile, which
    may use every phase."""
    if family_of(algorithm) == "unknown":
        return frozenset()
    known = frozenset[str]().union(*(phase_tags(name) for name in _ALGORITHM_OF_FAMILY))
    return known - phase_tags(algorithm)


class TagFilter:
    """Decides per tag and remembers it per key set; pure, owned by one thread."""

    def __init__(self, algorithm: str = "") -> None:
        self._table = MetricTable()
        self._foreign = foreign_phase_tags(algorithm)
        self._chosen: dict[tuple[str, ...], tuple[tuple[str, ...], NDArray[np.intp] | None]] = {}

    def persists(self, tag: str) -> bool:
        """Whether the tag is written. An unregistered tag is."""
        if tag in self._foreign:
            return False
        spec = self._table.spec(tag)
        return spec is None or spec.persisted

    def choose(
        self, tags: tuple[str, ...], values: NDArray[np.float64]
    ) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """The tags of a key set that are written, with their values."""
        chosen = self._chosen.get(tags)
        if chosen is None:
            kept = [position for position, tag in enumerate(tags) if self.persists(tag)]
            every = len(kept) == len(tags)
            chosen = (
                tags if every else tuple(tags[position] for position in kept),
                None if every else np.array(kept, dtype=np.intp),
            )
            if len(self._chosen) >= _MAX_KEY_SETS:
                self._chosen.clear()
            self._chosen[tags] = chosen
        kept_tags, positions = chosen
        return kept_tags, values if positions is None else values[positions]
