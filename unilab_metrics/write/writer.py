"""A writer's loop: durable history in, backend out, progress to the aggregator."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from unilab_metrics import crash_points
from unilab_metrics.errors import DamagedFileError, LeaseHeldError
from unilab_metrics.said_once import SaidOnce, cause_of
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.segments import list_segments, read_segment_header
from unilab_metrics.subscribe.history import HISTORY_PREFIX, HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.wording import counted
from unilab_metrics.write.aggregator_link import AggregatorLink
from unilab_metrics.write.backends.base import Backend, BackendError
from unilab_metrics.write.unattended import covered_update, make_durable
from unilab_schema.control import BackendStatus
from unilab_schema.updates import HistoryEntry, RunEnded

RECORDS_PER_TURN = 1000
FLUSH_BYTES = 1024 * 1024
FLUSH_S = 1.0
"""A busy writer makes data visible this often, an idle one after every turn."""
IDLE_MS = 250
REPORT_S = 1.0
RETRY_S = 1.0
"""Pause after the backend refused data."""
GIVE_UP_S = 10.0
"""How long a backend that refuses data holds up a writer that is to end."""
ACKNOWLEDGE_S = 2.0


def run_writer(
    run_dir: Path,
    backend: Backend,
    *,
    stop: Callable[[], bool],
    lease_wait_s: float = 3.0,
    log: Callable[[str], None] = print,
    follow: bool = True,
) -> bool:
    """Write the run's history into ``backend`` until the run has ended, the aggregator is
    gone or ``stop`` says so; then everything durable is written, and the backend closed.

    Returns whether that was all: false for a writer that was stopped while its run goes on.
    ``lease_wait_s``: how long to wait for a writer of an earlier aggregator to end. ``follow``:
    false for a writer that completes what lies in the files, whoever holds the run. Raises
    :class:`LeaseHeldError` if another writer of this backend goes on,
    :class:`BackendError` if the backend still refused data at the end, and what
    ``HistoryReader`` raises for a damaged history.
    """
    bus = bus_directory(run_dir)
    lease = _take_lease(bus, f"writer-{backend.name}.lease", lease_wait_s)
    try:
        return _Writer(run_dir, backend, stop, log, follow=follow).run()
    finally:
        lease.release()


class _Writer:
    def __init__(
        self,
        run_dir: Path,
        backend: Backend,
        stop: Callable[[], bool],
        log: Callable[[str], None],
        *,
        follow: bool,
    ) -> None:
        self._bus = bus_directory(run_dir)
        self._backend = backend
        self._stop = stop
        self._log = log
        self._link = AggregatorLink(run_dir, follow=follow)
        self._reader: HistoryReader | None = None
        self._problem = ""
        self._said = SaidOnce()
        self._end_by_s: float | None = None
        self._flushed_s = time.monotonic()
        self._reported_s = 0.0
        self._reported_update = -1
        self._last: HistoryEntry | None = None
        self._synced = False
        self._covered: int | None = None

    def run(self) -> bool:
        try:
            while not self._turn():
                pass
            return self._run_has_ended() or not self._link.alive
        finally:
            try:
                self._end()
            finally:
                self._link.close()
                if self._reader is not None:
                    self._reader.close()

    def _turn(self) -> bool:
        """True when there is nothing left to do."""
        # In this order: what was durable before either became true is still taken.
        ending = self._stop() or not self._link.alive
        try:
            caught_up = self._advance()
        except BackendError as error:
            return self._refused(error, ending=ending)
        self._recovered()
        if caught_up and (ending or self._run_has_ended()):
            return True
        self._report("running")
        if caught_up:
            self._link.wait(IDLE_MS)
        return False

    def _advance(self) -> bool:
        """One turn of reading and writing; true if nothing more is durable."""
        backend = self._backend
        if self._reader is None:
            self._reader = self._open_history()
            if self._reader is None:
                return True
        if self._problem:
            # What was refused comes first: taking more would only fill the memory.
            backend.flush()
        limit = self._durable()
        if limit is not None and limit <= self._reader.cursor:
            records = []
        else:
            records = self._reader.poll(RECORDS_PER_TURN, limit)
        if crash_points.armed and records:
            crash_points.reach("writer.fetched")
        backend.write(records)
        if records:
            self._last = records[-1].entry
        caught_up = len(records) < RECORDS_PER_TURN
        now_s = time.monotonic()
        if caught_up or backend.pending_bytes >= FLUSH_BYTES or now_s - self._flushed_s >= FLUSH_S:
            backend.flush()
            self._flushed_s = now_s
        return caught_up

    def _open_history(self) -> HistoryReader | None:
        journal = _journal(self._bus)
        if not journal:
            return None
        after = self._backend.open(journal)
        self._log(f"{self._backend.name} holds update {self._backend.update}")
        return HistoryReader(self._bus, after)

    def _durable(self) -> int | None:
        """The last update sequence that may be taken, ``None`` for all."""
        if self._link.alive:
            return self._link.head.durable if self._link.head is not None else 0
        if not self._synced:
            # Nobody else will say what is on the disk, and what will stay there.
            make_durable(self._bus)
            # Who was announced to has seen the journal mended.
            self._covered = covered_update(self._bus) if self._link.head is None else None
            self._synced = True
        return self._covered

    def _run_has_ended(self) -> bool:
        head = self._link.head
        if head is None or head.ended is None or self._backend.update < head.update:
            return False
        # The state ends before its record is in the history; a writer that was started at the
        # end has seen no record at all.
        return self._last is None or isinstance(self._last, RunEnded)

    def _refused(self, error: BackendError, *, ending: bool) -> bool:
        now_s = time.monotonic()
        self._problem = str(error)
        text = f"{self._backend.name} failed: {error}{self._prospect(error, ending=ending)}"
        if text := self._said.fails(cause_of(error), text):
            self._log(text)
        if ending and not self._link.alive and error.is_lasting:
            raise error
        self._report("failed", self._problem, force=True)
        if not ending:
            self._end_by_s = None
        elif self._end_by_s is None:
            self._end_by_s = now_s + GIVE_UP_S
        elif now_s > self._end_by_s:
            raise error
        time.sleep(RETRY_S)
        return False

    def _prospect(self, error: BackendError, *, ending: bool) -> str:
        if not ending:
            return "; trying again every second"
        if error.is_lasting and not self._link.alive:
            return ""
        return f"; trying again for {GIVE_UP_S:g} s"

    def _recovered(self) -> None:
        if self._problem:
            self._problem = ""
            if text := self._said.works(f"{self._backend.name} works again"):
                self._log(text)

    def _report(self, state: str, text: str = "", *, force: bool = False) -> None:
        now_s = time.monotonic()
        update = self._backend.update
        due = now_s - self._reported_s >= REPORT_S or update != self._reported_update
        if due or force:
            self._reported_s = now_s
            self._reported_update = update
            status = BackendStatus(self._backend.name, state, update, os.getpid(), text)
            self._link.report(status)

    def _end(self) -> None:
        try:
            self._backend.close()
        finally:
            self._log(f"{self._backend.name} ends at update {self._backend.update}")
            self._log_losses()
        if self._run_has_ended():
            self._tell_the_end()

    def _log_losses(self) -> None:
        for what, count in self._backend.not_written().items():
            self._log(f"{self._backend.name} did not write {count:,} {what}")
        if self._reader is not None and (self._reader.damaged or self._reader.lost_entries):
            self._log(
                f"the history is damaged in {counted(self._reader.damaged, 'place')}, "
                f"{counted(self._reader.lost_entries, 'entry', 'entries')} could not be read"
            )

    def _tell_the_end(self) -> None:
        """Until the aggregator has heard it: a message in a closing socket may be lost."""
        name, update = self._backend.name, self._backend.update
        deadline_s = time.monotonic() + ACKNOWLEDGE_S
        while self._link.alive and time.monotonic() < deadline_s:
            self._report("finished", force=True)
            self._link.wait(100)
            head = self._link.head
            if head is not None and any(
                status.name == name and status.state == "finished" and status.update >= update
                for status in head.backends
            ):
                return


def _take_lease(bus: Path, name: str, wait_s: float) -> Lease:
    payload = msgspec.json.encode({"pid": os.getpid()})
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return Lease.create(bus, name, payload)
        except LeaseHeldError:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(0.1)


def _journal(bus: Path) -> str:
    """Hex id of the history; empty while it has no complete header."""
    # A damaged header of the history costs the backend nothing: the wal is of the same journal.
    history = list_segments(bus, HISTORY_PREFIX)
    for path in [*history, *(list_segments(bus, "wal") if history else [])]:
        with contextlib.suppress(DamagedFileError):
            header = read_segment_header(path)
            if header is not None:
                return header.epoch.journal.hex()
    return ""
