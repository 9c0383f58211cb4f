"""What the subjects of an examination share: the run's files, each read once."""

from __future__ import annotations

import shlex
from functools import cached_property
from pathlib import Path

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.journaling.recovery import Recovered, recover
from unilab_metrics.errors import ConnectionFileError, UnilabMetricsError
from unilab_metrics.run.bus_settings import BusSettings, read_settings
from unilab_metrics.run.spool_places import spool_places
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile, aggregator_lease, bus_directory


class Patient:
    """A run. Everything here only reads; what cannot be read is ``None``, with its reason."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.bus_dir = bus_directory(run_dir)
        self.name = shlex.quote(str(run_dir))
        """For commands."""

    @cached_property
    def settings(self) -> BusSettings:
        """How the run was started; defaults if nobody can tell."""
        return read_settings(self.run_dir)

    @cached_property
    def aggregator_pid(self) -> int | None:
        """Who holds the aggregator's lease. Raises ``OSError``."""
        return owner_pid(aggregator_lease(self.run_dir))

    @cached_property
    def connection(self) -> ConnectionFile | ConnectionFileError:
        """``bus.json``, or what is wrong with it."""
        try:
            return rendezvous.read(self.bus_dir)
        except ConnectionFileError as error:
            return error

    @cached_property
    def journal(self) -> Recovered | Exception:
        """The journal as an aggregator would find it, or why it would not."""
        try:
            return recover(self.bus_dir)
        except (OSError, UnilabMetricsError) as error:
            return error

    @property
    def sources(self) -> list[SourceState]:
        """As the journal knows them."""
        return [] if isinstance(self.journal, Exception) else self.journal.state.data.sources

    @property
    def ended(self) -> str | None:
        """The status with which the run has ended."""
        return None if isinstance(self.journal, Exception) else self.journal.state.data.ended

    @cached_property
    def places(self) -> list[Path]:
        """Where the run's spools may lie on this node."""
        return spool_places(self.settings, [source.identity for source in self.sources])
