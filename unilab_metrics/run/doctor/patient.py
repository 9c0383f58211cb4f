"""What the subjects of an examination share: the run's files, each read once."""

from __future__ import annotations

import shlex
import time
from functools import cached_property
from pathlib import Path

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.journaling.recovery import Recovered, recover
from unilab_metrics.errors import ConnectionFileError, UnilabMetricsError
from unilab_metrics.run.bus_settings import BusSettings, read_settings
from unilab_metrics.run.completing.lease_holder import Holder, holder_of
from unilab_metrics.storage.spool_places import LiveProcess, live_processes, spool_places
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_schema.identity import LEARNER, SourceKey

_RESTART_S = 1.0
_POLL_S = 0.05


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
    def holder(self) -> Holder | None:
        """Who holds the aggregator's lease, after a moment for one that is being started again.
        Raises ``OSError``."""
        deadline_s = time.monotonic() + _RESTART_S
        while (holder := holder_of(self.run_dir)) is None:
            is_coming = self.ended is None and self.rank_0_pid is not None
            if not is_coming or time.monotonic() >= deadline_s:
                break
            time.sleep(_POLL_S)
        return holder

    @property
    def aggregator_pid(self) -> int | None:
        """The pid of ``holder``, who takes in what lies in spools. Raises ``OSError``."""
        return None if self.holder is None else self.holder.pid

    @cached_property
    def living(self) -> list[LiveProcess]:
        """The run's processes on this node. Raises ``OSError``."""
        return live_processes(self.places, [source.identity for source in self.sources])

    @property
    def rank_0_pid(self) -> int | None:
        """The learner that starts aggregators again, if it lives here. Raises ``OSError``."""
        first = SourceKey(0, LEARNER)
        return next((process.pid for process in self.living if process.key == first), None)

    @property
    def completion(self) -> str:
        """What completes the run, given who is at work on it. Raises ``OSError``."""
        if self.aggregator_pid is not None:
            return "the aggregator does it"
        if self.rank_0_pid is not None:
            return "look again in a moment: rank 0 starts another aggregator"
        recover_it = f"unilab-metrics recover {self.name}"
        return f"kill {self.living_pids} && {recover_it} --wait 30" if self.living else recover_it

    @property
    def living_pids(self) -> str:
        """Those of ``living``, for ``kill``."""
        return " ".join(str(process.pid) for process in self.living if process.pid)

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
