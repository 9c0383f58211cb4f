"""The collector's inference gauges, and their maxima since the last accepted report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unilab_metrics.publish import losses
from unilab_metrics.publish.scalars import to_float
from unilab_metrics.publish.strict import ArgumentError

INFERENCE_GAUGES = ("queue_depth", "action_backlog", "in_flight", "publication_lag")
_WITH_MAXIMUM = frozenset({"action_backlog", "in_flight", "publication_lag"})
_PREFIX = "Perf/collector_inference_"


class InferenceGauges:
    """Seven tags from four gauges. A maximum is reset by :meth:`accepted` only, so that a
    report which the spool refused loses no peak."""

    def __init__(self) -> None:
        self._now: dict[str, float] = {}
        self._maxima: dict[str, float] = {}

    def read(
        self, raw: Mapping[str, Any], refuse: Callable[[str, str, str], None], *, strict: bool
    ) -> None:
        """New readings as a training has them; ``refuse`` gets reason, name and text of one
        that is of no use. Raises :class:`ArgumentError` if ``strict`` for an unknown name."""
        readings: dict[str, float] = {}
        for name, value in raw.items():
            if name not in INFERENCE_GAUGES:
                if strict:
                    raise ArgumentError(f"{name!r} is no inference gauge")
                refuse(losses.BAD_CALL, str(name), "no inference gauge")
                continue
            try:
                readings[name] = to_float(value)
            except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
                refuse(losses.BAD_VALUE, name, str(error))
        self.set(readings)

    def set(self, gauges: Mapping[str, float]) -> None:
        """New readings; names are those of ``INFERENCE_GAUGES``."""
        for name, value in gauges.items():
            self._now[name] = value
            if name in _WITH_MAXIMUM:
                self._maxima[name] = max(value, self._maxima.get(name, value))

    def values(self) -> dict[str, float]:
        """The tags of a report; empty before the first reading."""
        return {
            **{f"{_PREFIX}{name}": value for name, value in self._now.items()},
            **{f"{_PREFIX}max_{name}": value for name, value in self._maxima.items()},
        }

    def accepted(self) -> None:
        """The values are in the spool: maxima start anew from the present readings."""
        self._maxima = {name: self._now[name] for name in self._maxima}
