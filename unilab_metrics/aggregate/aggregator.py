"""The aggregator process: one thread around the pure state, three sockets, one journal.

Order within a turn of the loop: drain the input, take the decisions that are due, commit,
then answer. Cursors and heads therefore never speak of what is not in the journal.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import zmq

from unilab_metrics.aggregate.alerting.alerts import Alerts
from unilab_metrics.aggregate.announcing.announcer import Announcer
from unilab_metrics.aggregate.closing import Closing
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.endurance import Endurance, needing, raise_descriptor_limit
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.leaving.adopting import STEP_NS
from unilab_metrics.aggregate.leaving.awaited import awaited
from unilab_metrics.aggregate.leaving.left_elsewhere import LeftElsewhere
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.leaving.unheard import Unheard
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.patience import Patience, everyone_is_gone
from unilab_metrics.aggregate.presence import Presence, connection_file, hide
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.bus_meter import BusMeter
from unilab_metrics.aggregate.receiving.ingest import Ingest
from unilab_metrics.aggregate.writers import Writers
from unilab_metrics.errors import ExitCode, LeaseHeldError, StorageFullError
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.lease import Lease, owner_pid
from unilab_metrics.storage.places import runtime_directory
from unilab_metrics.transport import sockets
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory

_LIVENESS_INTERVAL_NS = 300_000_000
_IDLE_MS = 250
_BUSY_MS = 10
_PAUSE_NS = 400_000_000
_REJOIN_NS = 3_000_000_000


def run_aggregator(
    run_dir: Path, options: Options, *, write_summary: Callable[[RunOutcome], None]
) -> int:
    """Run until every source is finished or gone and the backends are complete.

    Returns the process's exit code. Raises ``LeaseHeldError`` if the run has an aggregator,
    ``UnknownVersionError`` or ``DamagedFileError`` for a journal that it cannot continue,
    ``StorageError`` for a directory that it cannot write, and ``EndpointError``.
    """
    bus_dir = bus_directory(run_dir)
    owner = f"pid {os.getpid()} on {socket.gethostname()}".encode()
    with needing(bus_dir):
        held = Lease.create(private_directory(bus_dir), AGGREGATOR_LEASE, owner)
    try:
        with needing(bus_dir):
            journal = Journal(bus_dir)
        for fault in journal.faults:
            say(f"journal: {fault}")
        try:
            with needing(bus_dir):
                blocks = BlockStore(bus_dir, journal)
            try:
                core = Core(journal, blocks, options.straggler_deadline_s)
                return _Aggregator(run_dir, held, core, options, write_summary).run()
            finally:
                blocks.close()
        finally:
            with suppress(OSError, StorageFullError):
                journal.close()
    finally:
        held.release()


class _Aggregator:
    def __init__(
        self,
        run_dir: Path,
        lease: Lease,
        core: Core,
        options: Options,
        write_summary: Callable[[RunOutcome], None],
    ) -> None:
        self._run_dir = run_dir
        self._lease = lease
        self._bus_dir = lease.path.parent
        self._options = options
        self._write_summary = write_summary
        self._core = core
        self._checked_mono_ns = 0
        self._turned_mono_ns = time.monotonic_ns()
        if core.state.data.sources:
            # They have to find us first.
            core.decider.resumed(self._turned_mono_ns + _REJOIN_NS)
        self._patience = Patience(options, core.state.data)
        self._has_more = False
        self._endurance = Endurance()
        self._poller = zmq.Poller()

    def run(self) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._patience.told_to_end)
        raise_descriptor_limit()
        context = sockets.context()
        try:
            self._endpoints = Endpoints(
                context,
                f"ipc://{runtime_directory()}/{os.getpid()}",
                self._bus_dir,
                bind=self._options.bind,
                towards=self._options.job_address,
                say=say,
            )
            try:
                self._open()
                with closing(self._liveness), closing(self._alerts):
                    return self._loop()
            finally:
                with closing(self._endpoints):
                    self._endurance.attempt("connection file", self._hide)
        finally:
            sockets.terminate(context)

    def _open(self) -> None:
        endpoints, own_boot_id = self._endpoints, boot_id()
        if endpoints.problem:
            say(endpoints.problem)
            self._core.notice("warning", endpoints.problem)
        self._spools = SpoolDirectories(self._options.spool_directories)
        self._left_elsewhere = LeftElsewhere(
            self._core.state.data,
            peer=lambda source: self._ingest.peer(source),  # noqa: PLW0108
            is_out_of_sight=lambda source: self._liveness.is_out_of_sight(source),  # noqa: PLW0108
        )
        self._ingest: Ingest = Ingest(
            self._core,
            endpoints.sockets.ingest,
            # The two rooms need each other: looked up when called, not when built.
            is_dead=lambda source: self._liveness.is_dead(source),  # noqa: PLW0108
            vacate=lambda source: self._liveness.vacate(source),  # noqa: PLW0108
            adopt_orphans=lambda: self._endurance.attempt("spools", self._liveness.adopt_orphans),
            may_publish=endpoints.may_publish,
            hold=self._left_elsewhere.hold,
            awaited=self._awaited,
        )
        self._liveness = Liveness(
            self._core,
            boot_id=own_boot_id,
            spools=self._spools,
            lost_after_s=self._options.lost_after_s,
            peer=self._ingest.peer,
            bus_dir=self._bus_dir,
            step_ns=STEP_NS,
        )
        self._unheard = Unheard(
            self._core.state,
            self._ingest.peers,
            self._spools.roots,
            announced_ranks=endpoints.announced_ranks,
            listens=bool(endpoints.tcp.ingest),
        )
        self._writers = Writers(self._core, self._options.backends)
        self._alerts = Alerts(
            self._core,
            self._writers,
            self._options,
            peer=self._ingest.peer,
            run_dir=self._run_dir,
        )
        meter = BusMeter(
            self._ingest.peers, self._core.commits, self._bad_messages, self._options.node
        )
        self._core.bus_news = meter.news
        self._announcer = Announcer(
            self._core,
            self._ingest.peers,
            endpoints=endpoints,
            run_dir=self._run_dir,
            writers=self._writers,
            meter=meter,
        )
        self._announcer.webhook_trouble = lambda: self._alerts.webhook_trouble
        endpoints.register(self._poller)
        journal, launch = self._core.epoch.journal, self._options.launch
        file = connection_file(self._run_dir, endpoints, journal=journal, launch=launch)
        self._presence = Presence(self._run_dir, file)
        self._presence.show()

    def _bad_messages(self) -> int:
        return self._ingest.bad_messages + self._announcer.bad_messages

    def _loop(self) -> int:
        # What processes that are gone left behind is seen before the run can be over, and before
        # somebody else can take their places.
        self._endurance.attempt("spools", self._liveness.check)
        self._turn()
        ending = self._closing()
        while ending.is_put_off() or not self._is_over():
            self._turn()
        if not self._core.state.data.sources:
            say("no source connected; ending")
            return ExitCode.OK
        if not everyone_is_gone(self._core.state.data):
            self._finish_turn()
            say("ended by SIGTERM while sources live; their frames wait in the spools")
            return ExitCode.UNEXPECTED
        return ending.run()

    def _closing(self) -> Closing:
        return Closing(
            self._core,
            run_dir=self._run_dir,
            drain_s=self._options.drain_s,
            ingest=self._ingest,
            liveness=self._liveness,
            announcer=self._announcer,
            writers=self._writers,
            endurance=self._endurance,
            unheard=self._unheard.words,
            turn=self._turn,
            write_summary=self._write_summary,
        )

    def _is_over(self) -> bool:
        is_held = self._left_elsewhere.is_waited_for(time.monotonic_ns())
        if is_held or not self._patience.is_over(self._unheard.ranks):
            return False
        # What would take the end back later comes before it.
        self._endurance.attempt("spools", self._liveness.check_for_the_last_time)
        return self._patience.is_over(self._unheard.ranks)

    def _awaited(self) -> str:
        return awaited(
            self._core.state.data, self._writers.behind(self._core.journal.committed_update)
        )

    def _turn(self) -> None:
        busy = self._core.journal.is_syncing or self._core.state.data.windows.open
        timeout_ms = 0 if self._has_more else _BUSY_MS if busy else _IDLE_MS
        with suppress(InterruptedError):
            self._poller.poll(timeout_ms)
        self._note_pause()
        self._endpoints.attend()
        self._has_more = self._ingest.drain()
        self._endurance.attempt("subscribers", self._announcer.serve)
        now = time.monotonic_ns()
        if self._liveness.is_unfinished or now - self._checked_mono_ns >= _LIVENESS_INTERVAL_NS:
            self._checked_mono_ns = now
            self._endurance.attempt("spools", self._liveness.check)
            if self._core.state.data.ended is None or self._ingest.is_closing:
                # A writer would take the end of an earlier attempt for its own end.
                hurry = self._ingest.is_closing
                self._endurance.attempt("writers", partial(self._writers.look_after, hurry=hurry))
        if not self._liveness.holds_seals():
            self._core.seal_due(self._unheard.newcomers)
        self._has_more |= self._core.has_due or self._liveness.is_unfinished
        self._alerts.look()
        self._finish_turn()

    def _hide(self) -> None:
        if self._lease.is_in_place:
            hide(self._run_dir)

    def _note_pause(self) -> None:
        """A stopped or starved aggregator must not take its own absence for the sources'."""
        now = time.monotonic_ns()
        if now - self._turned_mono_ns > _PAUSE_NS:
            self._core.decider.resumed(now)
            self._alerts.resumed(now - self._turned_mono_ns)
        self._turned_mono_ns = now

    def _finish_turn(self) -> None:
        self._check_lease()
        self._core.commit()
        self._core.sync()
        self._check_lease()
        self._endurance.attempt("connection file", self._presence.look)
        self._ingest.answer()
        self._alerts.deliver()
        self._announcer.announce()

    def _check_lease(self) -> None:
        """Of a run that has another aggregator now, nothing is removed, answered or announced."""
        if not self._lease.is_in_place:
            raise LeaseHeldError(self._lease.path, owner_pid(self._lease.path))
