"""A training over two hosts: learner 0 with the helpers on ``a``, learner 1 and a collector on
``b``. Each process keeps a ledger of what it has published, as ``fault_rank`` says."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from fault_ledgers import read_ledgers
from fault_oracle import Outcome, compare
from fault_rank import STOP_COLLECTORS, STOP_LEARNERS, Settings
from network_helper import LOST_AFTER_VARIABLE, STRAGGLER_VARIABLE, interpreter
from two_hosts import Host, TwoHosts

from unilab_metrics.config import AGGREGATOR_LOG_FILE, BIND_VARIABLE, PYTHON_VARIABLE
from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free, owner_pid
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile, aggregator_lease, bus_directory
from unilab_schema.updates import EventUpdate, HistoryEntry, Update

_HERE = Path(__file__).parent
LEARNER_0, LEARNER_1, COLLECTOR_1 = "learner-0", "learner-1", "collector-1"


class NetworkTraining:
    """Started by :meth:`start`. The run directory is the one thing that the hosts share.

    ``kills``, ``ledgers``, ``run_dir``, ``ended_mono_ns``: for the oracle.
    """

    def __init__(
        self,
        hosts: TwoHosts,
        *,
        interval_s: float = 0.02,
        lost_after_s: float = 60.0,
        straggler_s: float = 30.0,
        bind: str = "",
        program: str = "fault_rank.py",
        **environment: str,
    ) -> None:
        """``program``: what a rank runs, with these variables in its environment."""
        self.hosts = hosts
        self.run_dir = hosts.shared / "run"
        self.ledgers = hosts.shared / "ledgers"
        for path in (self.run_dir, self.ledgers):
            path.mkdir()
        self.kills: list[tuple[str, int]] = []
        self.ended_mono_ns = 0
        self.processes: dict[str, subprocess.Popen[Any]] = {}
        self._reader: HistoryReader | None = None
        self._entries: list[HistoryEntry] = []
        hosts.at_end.append(self.close)
        self._interval_ns = int(interval_s * 1e9)
        self._start_mono_ns = time.monotonic_ns()
        self._starts = 0
        self._program = _HERE / program
        self._environment = {
            BIND_VARIABLE: bind or f"tcp://{hosts.a.address}",
            PYTHON_VARIABLE: os.fspath(interpreter(hosts.shared)),
            LOST_AFTER_VARIABLE: str(lost_after_s),
            STRAGGLER_VARIABLE: str(straggler_s),
            **environment,
        }

    def start(self, *places: str) -> None:
        """Start ranks, all three by default; those that are named again are new processes."""
        for place in places or (LEARNER_0, LEARNER_1, COLLECTOR_1):
            self._start(place)

    def _start(self, place: str, close_timeout_s: float = 60.0) -> None:
        role, _, rank = place.partition("-")
        host = self.host_of(place)
        self._starts += 1
        settings = Settings(
            run_dir=self.run_dir_on(place),
            folder=os.fspath(self.ledgers),
            role=role,
            rank=int(rank),
            world_size=2,
            name=f"{place}-1-{self._starts}",
            first=0,
            start_mono_ns=self._start_mono_ns,
            interval_ns=self._interval_ns,
            close_timeout_s=close_timeout_s,
        )
        log = (host.directory / f"{place}.log").open("ab")
        with log:
            self.processes[place] = host.start(
                sys.executable,
                self._program,
                msgspec.json.encode(settings).decode(),
                environment=self._environment,
                stdout=log,
                stderr=log,
            )

    def run_dir_on(self, place: str) -> str:
        """What a rank is told of the run directory."""
        return os.fspath(self.run_dir)

    def host_of(self, place: str) -> Host:
        return self.hosts.a if place == LEARNER_0 else self.hosts.b

    def kill(self, place: str) -> None:
        """SIGKILL to a rank."""
        process = self.processes.pop(place)
        process.kill()
        process.wait(10)

    def aggregator(self) -> int:
        """Its pid, 0 if there is none."""
        return owner_pid(aggregator_lease(self.run_dir)) or 0

    def bus(self) -> ConnectionFile | None:
        try:
            return rendezvous.read(bus_directory(self.run_dir))
        except ConnectionFileError:
            return None

    # --- what the run says ---------------------------------------------------------------

    def entries(self) -> list[HistoryEntry]:
        """The history so far."""
        if self._reader is None and any(bus_directory(self.run_dir).glob("history-*")):
            self._reader = HistoryReader(bus_directory(self.run_dir))
        while self._reader is not None and (records := self._reader.poll()):
            self._entries += [record.entry for record in records]
        return self._entries

    def updates(self) -> list[Update]:
        return [entry for entry in self.entries() if isinstance(entry, Update)]

    def told(self, kind: str) -> list[str]:
        return [
            entry.frame.text
            for entry in self.entries()
            if isinstance(entry, EventUpdate) and entry.frame.kind == kind
        ]

    def goes_on(self, ranks: int, *, count: int = 5, timeout_s: float = 60.0) -> list[Update]:
        """Once so many more iterations are sealed with values of so many ranks; these."""
        known = len(self.updates())
        found: list[Update] = []

        def look() -> bool:
            found[:] = [u for u in self.updates()[known:] if u.ranks_reported == ranks]
            return len(found) >= count

        until(look, timeout_s)
        return found

    def logged(self, place: str) -> int:
        """How many calls of a rank's ``log()`` have returned."""
        return len(self._costs_ns(place))

    def cost_us(self, place: str, since: int = 0) -> float:
        """Median of what ``log()`` costs a rank, from the call ``since`` on."""
        return statistics.median(self._costs_ns(place)[since:]) / 1e3

    def _costs_ns(self, place: str) -> list[int]:
        ledgers = [ledger for ledger in read_ledgers(self.ledgers) if ledger.place == place]
        return [after - before for ledger in ledgers for before, after in ledger.spans_ns.values()]

    def close(self) -> None:
        """Hold no file any more."""
        if self._reader is not None:
            self._reader.close()

    # --- the end -------------------------------------------------------------------------

    def finish(self, timeout_s: float = 90.0) -> Outcome:
        """Let all of them end in order, and compare what they published with what there is."""
        (self.ledgers / STOP_COLLECTORS).touch()
        self._await(timeout_s, "collector")
        (self.ledgers / STOP_LEARNERS).touch()
        self._await(timeout_s, "learner")
        until(lambda: read_summary(self.run_dir) is not None, timeout_s)
        until(lambda: is_free(aggregator_lease(self.run_dir)), timeout_s)
        self.ended_mono_ns = time.monotonic_ns()
        # Shown with a failure.
        print(*map(self.words_of, self.processes), sep="")
        print((bus_directory(self.run_dir) / AGGREGATOR_LOG_FILE).read_text(errors="replace"))
        return compare(self)

    def _await(self, timeout_s: float, role: str) -> None:
        for place, process in self.processes.items():
            if place.startswith(role):
                assert process.wait(timeout_s) == 0, self.words_of(place)

    def words_of(self, place: str) -> str:
        """What a rank has printed."""
        return (self.host_of(place).directory / f"{place}.log").read_text(errors="replace")

    def left_on_b(self) -> list[Path]:
        """Spools on the host without the aggregator."""
        return [path.parent for path in self.hosts.b.spools.glob("*/*/lease")]


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.05)
