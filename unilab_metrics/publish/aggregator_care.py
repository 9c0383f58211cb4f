"""What a shipper asks of those who look after the aggregator; the run's side fulfils it."""

from __future__ import annotations

from typing import Protocol

from unilab_metrics.helper_life import Heard


class Supervise(Protocol):
    """Keeps an aggregator alive."""

    def __call__(self, *, hurry: bool, heard: Heard | None) -> str:
        """Called about once a second, must not wait. ``hurry``: it is needed to end now.
        ``heard``: its last answer, ``None`` while it is not asked. What is wrong with it,
        empty if nothing is."""
        ...


class StandIn(Protocol):
    """Starts the aggregator if the process that should has died."""

    def __call__(self, *, hurry: bool) -> str:
        """As :class:`Supervise`."""
        ...


def no_run() -> None:
    """The run of a shipper that nobody has told it."""
