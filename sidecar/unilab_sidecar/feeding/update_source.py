"""What the feed needs of whoever reads the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from unilab_metrics.errors import UnilabMetricsError
from unilab_schema.control import Head
from unilab_schema.requests import Snapshot
from unilab_sidecar.feeding.questions import Answering

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord


class UpdateSource(Answering, Protocol):
    """What the feed needs of ``unilab_metrics.subscribe.Subscriber``."""

    keeps_up: bool
    """Whether updates are passed over rather than read far too late."""

    @property
    def head(self) -> Head | None:
        """The newest announcement."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the aggregator answers."""
        ...

    @property
    def late_s(self) -> float:
        """How long the newest announcement was on its way, at least."""
        ...

    @property
    def refusal(self) -> UnilabMetricsError | None:
        """Why the aggregator does not let us in any more, ``None`` while that is not known."""
        ...

    @property
    def reads_files(self) -> bool:
        """Whether the last poll has looked at the run's files, for want of an aggregator."""
        ...

    @property
    def lost_entries(self) -> int:
        """Entries of the history that could not be handed over: nobody can read them."""
        ...

    @property
    def passed_over(self) -> int:
        """Updates of the history that were not read, because that would have taken too long."""
        ...

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        """New entries in order, after at most ``timeout_ms``."""
        ...

    def snapshot(self) -> Snapshot | None:
        """Newest values of all tags as of joining, ``None`` while they are not there; another
        one after updates were passed over."""
        ...

    @property
    def restarts(self) -> int:
        """How often it has gone on from another place of the history: a new snapshot and records
        that do not follow those before."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...
