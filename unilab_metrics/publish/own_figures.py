"""What publishing costs its own process: time inside ``log()``, time until it is journaled.

The thread that logs adds to two integers; the shipper's thread reads them and does the rest.
"""

from __future__ import annotations

from unilab_schema.control import SourceFigures

_STRETCH_NS = 1_000_000_000


class OwnFigures:
    """``log_calls`` and ``log_ns`` belong to the thread that logs, the rest to the shipper's."""

    def __init__(self) -> None:
        self.log_calls = 0
        """Calls of ``log()`` that were measured."""
        self.log_ns = 0
        """Time inside them."""
        self._stretch_began_ns = 0
        self._longest_ns: int | None = None
        self._longest_before_ns: int | None = None

    def acknowledged(self, latency_ns: int, now_ns: int) -> None:
        """The oldest of some records was journaled ``latency_ns`` after its append."""
        self._turn_over(now_ns)
        self._longest_ns = max(latency_ns, self._longest_ns or 0)

    def read(self, backlog: int, now_ns: int) -> SourceFigures:
        """The figures as of now. ``backlog``: records that are not known to be journaled."""
        self._turn_over(now_ns)
        known = [
            latency_ns
            for latency_ns in (self._longest_ns, self._longest_before_ns)
            if latency_ns is not None
        ]
        latency_ms = max(known) / 1e6 if known else None
        return SourceFigures(backlog, self.log_calls, self.log_ns, latency_ms)

    def _turn_over(self, now_ns: int) -> None:
        passed_ns = now_ns - self._stretch_began_ns
        if passed_ns < _STRETCH_NS:
            return
        self._longest_before_ns = self._longest_ns if passed_ns < 2 * _STRETCH_NS else None
        self._longest_ns = None
        self._stretch_began_ns = now_ns
