"""Which sources are gone, and taking in what they left on this node.

The order is fixed: dead, leftovers adopted, lost. Dead means its lease is free and its process
gone or silent for 5 s (same node), or that nothing was heard for ``lost_after_s`` (another
node); silence alone means nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone
from unilab_metrics.aggregate.folding.kept_frames import all_kept
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.leaving.adopting import Adopting, is_unreadable
from unilab_metrics.aggregate.leaving.deaths import Deaths, ending_words
from unilab_metrics.aggregate.leaving.launch_order import in_launch_order, is_rank_zero
from unilab_metrics.aggregate.leaving.leftovers import Orphan, SpoolDirectories
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_metrics.storage import lease
from unilab_metrics.storage.orphans import is_abandoned, remove_spool, runs_here
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.wording import lost_how
from unilab_schema.control import Hello

_LOOK_NS = 300_000_000
_LEASE_DOUBTED_NS = 5_000_000_000
"""A lease that is free although its holder seems to live counts after this silence."""


class Liveness:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        core: Core,
        *,
        boot_id: str,
        spools: SpoolDirectories,
        lost_after_s: float,
        peer: Callable[[SourceState], Peer],
        bus_dir: Path | None = None,
        step_ns: int = 0,
    ) -> None:
        """``bus_dir``: where launchers say how their processes ended. ``step_ns``: how long one
        :meth:`check` may read spools of known processes; 0 for as long as it takes."""
        self._core = core
        self._boot_id = boot_id
        self._spools = spools
        self._lost_after_ns = int(lost_after_s * 1e9)
        self._peer = peer
        self._deaths = Deaths(bus_dir, boot_id)
        self._step_ns = step_ns
        self._has_orphans, self._looked_mono_ns = False, 0
        self._adopting = Adopting(core, self.is_dead)
        self._emptied: set[int] = set()
        self.keeps_spools = False
        """Whether what was adopted stays until :meth:`remove_finished`."""
        self.is_closing = False
        """Whether spools of unknown processes are left to the next aggregator."""

    def is_dead(self, source: SourceState) -> bool:
        """Whether the source's process is known to be gone."""
        peer = self._peer(source)
        silent_ns = time.monotonic_ns() - peer.heard_mono_ns
        if peer.adopted_upto is not None and source.cursor >= peer.adopted_upto:
            return True
        if self.is_out_of_sight(source):
            return silent_ns > self._lost_after_ns
        identity = source.identity
        path = Path(identity.lease_path)
        try:
            if not lease.is_free(path):
                return False
            if silent_ns > _LEASE_DOUBTED_NS:
                return True
            # Somebody may have removed the file, or closed a second descriptor of it in its
            # holder's process, which frees it: neither shows that the holder is gone.
            return path.exists() and not runs_here(identity)
        except (OSError, ValueError):
            return silent_ns > self._lost_after_ns

    def may_listen(self, source: SourceState) -> bool:
        """Whether a process of this node is still there to read an answer."""
        if source.identity.boot_id != self._boot_id:
            return False
        try:
            return not lease.is_free(Path(source.identity.lease_path))
        except (OSError, ValueError):
            return False

    def check(self) -> None:
        """Look at every live source once; adopt and close what is gone, perhaps a step of it."""
        self._adopting.begin(self._step_ns)
        try:
            self._check_known()
        finally:
            self._adopting.end()
        if self.is_unfinished:
            # Which attempt the others belong to is known when this one has said all.
            self._adopt_reports()
        else:
            self.adopt_orphans()
        if not self.keeps_spools:
            self._adopting.remove_durable()

    @property
    def is_unfinished(self) -> bool:
        """Whether :meth:`check` is to be called again at once."""
        return self._adopting.is_unfinished

    def holds_seals(self) -> bool:
        """Whether what is open waits for spools of processes that we do not know yet; looks for
        them, now and then."""
        now = time.monotonic_ns()
        if self.is_unfinished and now - self._looked_mono_ns > _LOOK_NS:
            self._has_orphans = any(self._spools.orphans(self._known_spools()))
            self._looked_mono_ns = now
        return self.is_unfinished and self._has_orphans

    def _adopt_reports(self) -> None:
        """Those that belong to the iterations that a dead learner's spool brings."""
        for source in self._core.state.others:
            if source.status == "live" and source.ended is None and self.is_dead(source):
                self._adopt_rest(source)

    def _check_known(self) -> None:
        for source in self._core.state.data.sources:
            if source.status != "live":
                self._adopt_late_rest(source)
                continue
            if source.ended is not None:
                self._leave(source, "finished")
            elif self.is_dead(source):
                self.vacate(source)
            elif not self.is_out_of_sight(source):
                self._deaths.watch(source)

    def check_for_the_last_time(self) -> None:
        """As :meth:`check`, when the run would be over: nobody is waited for any more."""
        self._step_ns, step_ns = 0, self._step_ns
        try:
            self.check()
        finally:
            self._step_ns = step_ns
        self.adopt_orphans(may_wait=False)

    def vacate(self, source: SourceState) -> None:
        """A dead source: take what is left in its spool, then call it finished or lost. One
        whose spool the disk has no room for yet stays as it is until another call."""
        if not self._adopt_rest(source):
            return
        self._leave(source, "finished" if source.ended is not None else "lost")

    def _adopt_late_rest(self, source: SourceState) -> None:
        """Of a process that was given up while it lived: superseded, or silent for long."""
        if source.status != "lost" or source.index in self._emptied or self.is_closing:
            return
        directory = self._spools.spool_of(source.identity)
        is_gone = directory is None or (is_abandoned(directory) and not runs_here(source.identity))
        if is_gone and self.vacate_again(source):
            self._emptied.add(source.index)

    def close(self) -> None:
        """Hold nothing any more."""
        self._deaths.close()
        self._adopting.close()

    def vacate_again(self, source: SourceState) -> bool:
        """One that was given up: take what is left in its spool, with its goodbye if it said
        one. False if the disk has no room for all of it yet."""
        if not self._adopt_rest(source):
            return False
        if source.status == "lost" and source.ended is not None:
            self._leave(source, "finished")
        return True

    def _adopt_rest(self, source: SourceState) -> bool:
        """Take what lies beyond the cursor in the spool of a source whose process is gone.
        False if the disk has no room for all of it yet."""
        directory = self._spools.spool_of(source.identity)
        is_here = directory is not None and self._is_spool_of(source, directory)
        if directory is not None and is_here and not self._adopting.adopt(source, directory):
            return False
        # What a damaged journal still had of it. Another node may have the rest, and come back.
        through = 0 if self.is_out_of_sight(source) and not is_here else source.told_through
        self._adopting.take(source, all_kept(source, through))
        return True

    def remove_finished(self) -> None:
        """At the end of the run: every spool that is durable and whose process is gone."""
        for source in self._core.state.data.sources:
            directory = self._spools.spool_of(source.identity)
            if (
                directory is not None
                and self._is_spool_of(source, directory)
                and self._core.durable_cursor(source.index) >= source.cursor
                and lease.is_free(directory / LEASE_NAME)
                and (source.ended is not None or SpoolReader(directory).last() <= source.cursor)
                and not is_unreadable(directory)
            ):
                remove_spool(directory)
        self._spools.remove_empty()

    def _is_spool_of(self, source: SourceState, directory: Path) -> bool:
        if source.identity.boot_id == self._boot_id:
            return True
        # A node that was started again still has what lay on its disk.
        found = SpoolReader(directory).identity
        is_same = found is not None and found.incarnation == source.identity.incarnation
        return is_same and lease.is_free(directory / LEASE_NAME)

    def is_out_of_sight(self, source: SourceState) -> bool:
        """Whether it runs on another node, or in a container of this one whose files are not
        ours: there its lease is missing for us, whatever becomes of it."""
        identity = source.identity
        if identity.boot_id != self._boot_id:
            return True
        return self._peer(source).is_over_tcp and not os.path.lexists(identity.lease_path)

    def _is_unreachable(self, source: SourceState) -> bool:
        """Whether its silence is all that we know."""
        return self.is_out_of_sight(source) and self._peer(source).adopted_upto is None

    def _leave(self, source: SourceState, how: str) -> None:
        text, ending = "", ""
        if how == "lost":
            # A container has pids of its own: ours by that number would be another process.
            is_here = not self.is_out_of_sight(source)
            status = self._deaths.status_of(source) if is_here else None
            ending = ending_words(status)
            text = f"{source.name} {lost_how(ending)}"
            if self._is_unreachable(source):
                silent_s = (time.monotonic_ns() - self._peer(source).heard_mono_ns) / 1e9
                text = f"{source.name} has not been heard of for {silent_s:.0f} s"
            say(text)
        self._deaths.forget(source)
        now = time.monotonic_ns()
        self._core.fold(SourceGone(source.index, how, time.time_ns(), now, text, ending))

    def adopt_orphans(self, *, may_wait: bool = True) -> None:
        """Take in the spools of processes that were killed before we ever heard of them.
        ``may_wait``: leave those that may be of an attempt whose rank 0 has not come yet."""
        if self.is_closing:
            return
        put_off: list[Orphan] = []
        for orphan in in_launch_order(list(self._spools.orphans(self._known_spools()))):
            if not self._adopt_unknown(orphan, may_wait=may_wait):
                put_off.append(orphan)
            elif is_rank_zero(orphan.identity):
                # They were waiting for an attempt, and this one comes before the next.
                put_off = [
                    one for one in put_off if not self._adopt_unknown(one, may_wait=may_wait)
                ]

    def _known_spools(self) -> set[Path]:
        return {Path(source.identity.spool_path) for source in self._core.state.data.sources}

    def _adopt_unknown(self, orphan: Orphan, *, may_wait: bool) -> bool:
        """The spool of a process that was killed before we ever heard of it. False for one
        that is left to a later attempt."""
        identity = orphan.identity
        state = self._core.state
        if self._spools.spool_of(identity) != orphan.directory:
            return False
        is_copy = Path(identity.spool_path) != orphan.directory
        if is_copy and state.source_of(identity.incarnation) is not None:
            # Taken in with its source, when that is known to be gone.
            return False
        # Holes at the start are gap records of the reader, so the first sequence is 1.
        hello = Hello(identity, 1, 0, SpoolReader(orphan.directory).last_mono_ns(), 0)
        admission = admit(state, hello, self.is_dead, is_orphan=True, may_wait=may_wait)
        if admission.vacate is not None:
            self.vacate(admission.vacate)
            admission = admit(state, hello, self.is_dead, is_orphan=True, may_wait=may_wait)
        if admission.refusal is not None:
            return False
        if admission.opens_attempt:
            self._core.seal_all()
            self._core.fold(OpenAttempt(state.data.attempt + 1, time.time_ns()))
        for entry in admission.entries:
            self._core.fold(entry)
        source = state.source_of(identity.incarnation)
        if source is not None and source.status == "live":
            self.vacate(source)
        elif source is not None:
            self.vacate_again(source)
        return True
