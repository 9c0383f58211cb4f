"""The metrics of each group of a picture. Pure."""

from __future__ import annotations

from unilab_schema.identity import RunInfo
from unilab_sidecar.groups.grouping import Group, grouped
from unilab_sidecar.groups.metric_group import Labels, MetricGroup, Readings, of_readings


class GroupedReadings:
    """Groups are made anew only when there are other tags."""

    def __init__(self) -> None:
        self._of: tuple[frozenset[str], str, str] | None = None
        self._groups: dict[Group, Labels] = {}

    def metrics(self, readings: Readings, run: RunInfo) -> dict[Group, MetricGroup]:
        """What there is of each group, in its order."""
        of = frozenset(readings), run.algorithm, run.reward_tag
        if self._of != of:
            groups = grouped(*of)
            self._of = of
            self._groups = {group: Labels(labels) for group, labels in groups.items()}
        return {group: of_readings(labels, readings) for group, labels in self._groups.items()}
