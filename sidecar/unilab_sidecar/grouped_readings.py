"""The metrics of each group of a picture. Pure."""

from __future__ import annotations

from unilab_sidecar.grouping import Group, Label, grouped
from unilab_sidecar.picture import Metric, Reading


class GroupedReadings:
    """Groups are made anew only when there are other tags."""

    def __init__(self) -> None:
        self._tags: frozenset[str] | None = None
        self._groups: dict[Group, list[Label]] = {}

    def metrics(self, readings: dict[str, Reading]) -> dict[Group, tuple[Metric, ...]]:
        """What there is of each group, in its order."""
        tags = frozenset(readings)
        if self._tags != tags:
            self._tags, self._groups = tags, grouped(tags)
        return {
            group: tuple(Metric(label, tag, readings[tag], unit) for tag, label, unit in labels)
            for group, labels in self._groups.items()
        }
