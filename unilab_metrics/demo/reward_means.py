"""``reward/<term>`` of a collector's report: the mean over its ticks."""

from __future__ import annotations

from collections.abc import Mapping


class RewardMeans:
    """Sums the terms of each tick (already means over the environments) until a report."""

    def __init__(self) -> None:
        self.ticks = 0
        self._sums: dict[str, float] = {}

    def add(self, terms: Mapping[str, float]) -> None:
        """One tick's raw value times weight, by term."""
        for term, value in terms.items():
            self._sums[term] = self._sums.get(term, 0.0) + value
        self.ticks += 1

    def take(self) -> dict[str, float]:
        """The means by tag; starts the next report."""
        means = {f"reward/{term}": total / self.ticks for term, total in self._sums.items()}
        self._sums.clear()
        self.ticks = 0
        return means
