"""``recover``: finish a run that nobody is at work on, without sockets and without waiting.

What the next attempt or a live aggregator would do: adopt what lies in the spools, seal, end
the run, complete every backend and the summary, remove what is durable. Safe to interrupt
and to repeat: each step begins where the files are.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from unilab_metrics.aggregate.folding.attendance import absent_ranks
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.journaling.recovery import Recovered, recover
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_metrics.errors import (
    ExitCode,
    LeaseHeldError,
    StorageError,
    UnilabMetricsError,
)
from unilab_metrics.outcome import COMPLETED, RunOutcome
from unilab_metrics.run.bus_settings import (
    SETTINGS_FILE,
    BusSettings,
    clear_launch,
    read_settings,
    settings_fault,
)
from unilab_metrics.run.completing.backend_completion import (
    AGAIN,
    complete_backend,
    is_full,
)
from unilab_metrics.run.completing.lease_holder import Holder, holder_of, recovery_payload
from unilab_metrics.run.completing.lost_wal import check_wal
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.run.completing.recovery_room import no_room
from unilab_metrics.run.summary import is_told, write_summary
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.places import runtime_directory
from unilab_metrics.storage.spool_places import (
    LiveProcess,
    live_processes,
    nameless_spools,
    processes_without_lease,
    spool_places,
    spools_in,
)
from unilab_metrics.transport import registry, rendezvous
from unilab_metrics.transport.ipc import remove_dead_endpoints
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory

_POLL_S = 0.1
_SPOOLS_UNKNOWN = (
    "where the spools of processes lie that the journal has not heard of is not known; the next "
    "attempt in this directory takes them in"
)


class RunIsLiveError(UnilabMetricsError):
    """A run that processes are at work on. Facts: ``pids``."""

    exit_code = ExitCode.REFUSED

    def __init__(self, text: str, pids: Sequence[int]) -> None:
        super().__init__(text)
        self.pids = list(pids)


def recover_run(
    run_dir: Path, *, spools: Sequence[Path] = (), wait_s: float = 0.0, timeout_s: float = 60.0
) -> Recovery:
    """Complete the run. ``spools``: directories in which spools of it lie, or copies of them
    from other nodes, beside those that are known; ``wait_s``: how long to wait for its processes
    to end; ``timeout_s``: how long a full disk is tried.

    Raises :class:`RunIsLiveError`, ``UnsafePathError`` for a bus directory that others may
    enter, ``DamagedFileError``, ``LostWalError`` and ``UnknownVersionError`` for a journal that
    cannot be continued, ``NoRoomError`` for a disk that is full, and ``StorageError`` and
    ``OSError`` for one that fails.
    """
    began_s = time.monotonic()
    bus_dir = private_directory(bus_directory(run_dir))
    run: _Run | None = None
    try:
        held = _take_lease(run_dir, bus_dir, began_s + wait_s)
        try:
            run = _Run(run_dir, bus_dir, began_s, spools)
            return run.recover(began_s + wait_s, timeout_s)
        finally:
            held.release()
    except (OSError, StorageError) as error:
        if is_full(error):
            settings = read_settings(run_dir)
            places = run.places if run is not None else spool_places(settings, [])
            raise no_room(error, bus_dir, places) from error
        raise


def _take_lease(run_dir: Path, bus_dir: Path, deadline_s: float) -> Lease:
    while True:
        try:
            return Lease.create(bus_dir, AGGREGATOR_LEASE, recovery_payload())
        except LeaseHeldError as error:
            holder = holder_of(run_dir)
            if holder is not None and time.monotonic() >= deadline_s:
                raise _live_run(run_dir, holder) from error
        time.sleep(_POLL_S)


def _live_run(run_dir: Path, holder: Holder) -> RunIsLiveError:
    text, pid = f"the run has {holder}, which completes it", holder.pid
    if holder.is_recovery:
        text = f"{holder} is at work on the run; let it end, this one has then nothing to do"
        return RunIsLiveError(text, [pid])
    processes: list[LiveProcess] = []
    with contextlib.suppress(OSError):
        # Without the journal, which the aggregator is writing: what the settings name will do.
        processes = live_processes(spool_places(read_settings(run_dir), []), [])
    if processes:
        who = ", ".join(map(str, processes))
        which = "these processes have" if len(processes) > 1 else "this process has"
        text += f" when {which} ended: {who}"
    return RunIsLiveError(text, [pid, *(process.pid for process in processes)])


class _Run:
    def __init__(
        self, run_dir: Path, bus_dir: Path, began_s: float, spools: Sequence[Path]
    ) -> None:
        self._spools = spools
        self._run_dir = run_dir
        self._bus_dir = bus_dir
        self._began_s = began_s
        self._settings: BusSettings = read_settings(run_dir)
        self.places = [*spool_places(self._settings, []), *spools]
        """Where spools of the run lie, as far as that is known by now."""
        self._faults: list[str] = []
        self._history_fault = self._gone = ""
        self._unknown: dict[str, str] = {}
        fault = settings_fault(run_dir)
        if fault:
            path = os.fspath(bus_dir / SETTINGS_FILE)
            self._unknown[path] = f"{fault}; {_SPOOLS_UNKNOWN}"

    def recover(self, deadline_s: float, timeout_s: float) -> Recovery:
        found = recover(self._bus_dir)
        check_wal(self._run_dir, found)
        identities = [source.identity for source in found.state.data.sources]
        known = spool_places(self._settings, identities)
        places = self.places = list(dict.fromkeys([*known, *self._spools]))
        _await_end(
            lambda: live_processes(places, identities) + processes_without_lease(places), deadline_s
        )
        self._faults = found.faults
        self._history_fault, self._gone = found.history_fault, found.gone
        if _is_finished(found) and not any(True for _ in spools_in(places)):
            state = found.state
            done = self._complete(lambda held: outcome_of(state, self._run_dir, {}, held), places)
            return _with_ranks(done, state.data)
        journal = OfflineJournal(self._bus_dir, SpoolDirectories(places))
        try:
            ended = journal.finish()
            try:
                journal.make_durable(timeout_s)
            except StorageError as error:
                if is_full(error):
                    raise
                raise StorageError(error.path, f"{error.reason}; {AGAIN}") from error
            done = self._complete(
                lambda held: journal.outcome(self._run_dir, held), places, journal, ended=ended
            )
            return _with_ranks(done, journal.data)
        finally:
            journal.close()

    def _complete(
        self,
        outcome: Callable[[dict[str, int]], RunOutcome],
        places: Sequence[Path],
        journal: OfflineJournal | None = None,
        *,
        ended: bool = False,
    ) -> Recovery:
        first = outcome({})
        # The one that lies there knows more than a journal that has lost its wal.
        is_damaged = bool(self._faults) or (journal is not None and journal.damaged_records > 0)
        keeps_summary = is_damaged and is_told(self._run_dir, first, of_backends=False)
        if journal is not None and not keeps_summary:
            # Readers of the summary do not wait for a backend that is stuck.
            write_summary(first)
        backends = [
            complete_backend(self._run_dir, name, self._settings.log_interval, first.updates)
            for name in self._settings.backends
        ]
        final = outcome({backend.name: backend.after for backend in backends})
        wrote_summary = journal is not None or not is_told(self._run_dir, final)
        wrote_summary = wrote_summary and not keeps_summary
        if wrote_summary:
            write_summary(final)
        before = len(list(spools_in(places)))
        left_alone = self._unknown | _left_alone(journal, places)
        is_done = not left_alone and not any(backend.problem for backend in backends)
        if journal is not None and is_done:
            # Whoever is told to look into something may need what lies there.
            journal.remove_spools()
        removed = before - len(list(spools_in(places)))
        if final.status == COMPLETED and is_done:
            clear_launch(self._settings.launch, self._run_dir, places)
        self._remove_traces()
        return Recovery(
            run_dir=self._run_dir,
            outcome=final,
            taken=journal.taken() if journal is not None else [],
            iterations_sealed=journal.seals["iterations"] if journal is not None else 0,
            supplements=journal.seals["supplements"] if journal is not None else 0,
            ended=(final.text or final.status) if ended else None,
            elsewhere=journal.elsewhere if journal is not None else [],
            refused=left_alone,
            damaged_records=journal.damaged_records if journal else 0,
            faults=self._faults,
            history_fault=self._history_fault,
            gone=self._gone,
            late_values=journal.late_values if journal else 0,
            backends=backends,
            removed=removed,
            wrote_summary=wrote_summary,
            seconds=time.monotonic() - self._began_s,
        )

    def _remove_traces(self) -> None:
        """What says that an aggregator is there."""
        rendezvous.remove(self._bus_dir)
        registry.unregister(self._run_dir)
        with contextlib.suppress(OSError, StorageError):
            remove_dead_endpoints(runtime_directory())


def _with_ranks(recovery: Recovery, data: RunData) -> Recovery:
    return recovery._replace(learners=data.expected_learners, absent=absent_ranks(data))


def _left_alone(journal: OfflineJournal | None, places: Sequence[Path]) -> dict[str, str]:
    refused = nameless_spools(places) | (journal.refused if journal is not None else {})
    return {os.fspath(path): why for path, why in refused.items()}


def _await_end(living: Callable[[], list[LiveProcess]], deadline_s: float) -> None:
    while processes := living():
        if time.monotonic() >= deadline_s:
            who = ", ".join(map(str, processes))
            count = "processes" if len(processes) > 1 else "a process"
            text = f"{count} of the run lives on this node: {who}"
            raise RunIsLiveError(text, [process.pid for process in processes])
        time.sleep(_POLL_S)


def _is_finished(found: Recovered) -> bool:
    """Whether the journal itself needs nothing."""
    data = found.state.data
    return (
        data.ended is not None
        and all(source.status != "live" for source in data.sources)
        and not data.windows.open
        and not data.windows.late
        and not found.damaged_records
        and not found.faults
        and not found.missing
        and found.last_update == data.next_update - 1
    )
