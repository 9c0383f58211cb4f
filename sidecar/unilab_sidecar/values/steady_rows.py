"""Rows of the collector's timeline that do not come and go between two pictures. Pure."""

from __future__ import annotations

from unilab_schema.timing import (
    CollectorTimeline,
    Row,
    collector_row,
    collector_rows,
    collector_timeline,
)

HOLD_NS = 5_000_000_000
"""A row goes when it has been below 1 % of the cycle for so long: means of two seconds around 1 %
would make it come and go."""


class SteadyRows:
    """Remembers when each row last reached 1 % of its cycle, on the aggregator's clock."""

    def __init__(self) -> None:
        self._loud_mono_ns: dict[str, int] = {}

    def clear(self) -> None:
        """Another attempt, or another clock: every row has to be loud again."""
        self._loud_mono_ns.clear()

    def timeline(
        self, values: dict[str, float], algorithm: str, mono_ns: int | None
    ) -> CollectorTimeline:
        """The timeline of ``values`` as of ``mono_ns``, with the rows that were in it lately."""
        timeline = collector_timeline(values, algorithm)
        if mono_ns is None or timeline.cycle_ms is None:
            return timeline
        loud = {row.tag: row for row in timeline.rows}
        rows: list[Row] = []
        phases = collector_rows(algorithm, values)
        for phase in phases:
            if phase.tag in loud:
                self._loud_mono_ns[phase.tag] = mono_ns
                rows.append(loud[phase.tag])
            elif phase.tag in values and self._is_held(phase.tag, mono_ns):
                rows.append(collector_row(phase, phases, values, timeline.cycle_ms))
        return timeline._replace(rows=tuple(rows))

    def _is_held(self, tag: str, mono_ns: int) -> bool:
        loud_mono_ns = self._loud_mono_ns.get(tag)
        return loud_mono_ns is not None and 0 <= mono_ns - loud_mono_ns < HOLD_NS
