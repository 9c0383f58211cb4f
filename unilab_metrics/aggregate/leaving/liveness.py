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
from unilab_metrics.aggregate.leaving.deaths import Deaths, ending_words, sentence_end
from unilab_metrics.aggregate.leaving.launch_order import in_launch_order, is_rank_zero
from unilab_metrics.aggregate.leaving.leftovers import Orphan, SpoolDirectories
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_metrics.storage import lease
from unilab_metrics.storage.orphans import is_abandoned, remove_spool, runs_here
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_schema.control import Hello

_READ_BYTES = 512 * 1024
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
    ) -> None:
        """``bus_dir``: where launchers say how their processes ended."""
        self._core = core
        self._boot_id = boot_id
        self._spools = spools
        self._lost_after_ns = int(lost_after_s * 1e9)
        self._peer = peer
        self._deaths = Deaths(bus_dir, boot_id)
        self._adopted: dict[Path, SourceState] = {}
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
        """Look at every live source once; adopt and close what is gone."""
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
        self.adopt_orphans()
        self._remove_adopted()

    def check_for_the_last_time(self) -> None:
        """As :meth:`check`, when the run would be over: nobody is waited for any more."""
        self.check()
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
        if directory is not None and is_here and not self._adopt(source, directory):
            return False
        # What a damaged journal still had of it. Another node may have the rest, and come back.
        through = 0 if self.is_out_of_sight(source) and not is_here else source.told_through
        self._take(source, all_kept(source, through))
        return True

    def _take(self, source: SourceState, records: bytes) -> None:
        accepted = accept(source, records, 0)
        if accepted.entry is not None:
            self._core.fold(accepted.entry, accepted.records)

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
                and not _is_unreadable(directory)
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
            text = f"{source.name} {sentence_end(status)}"
            if self._is_unreachable(source):
                silent_s = (time.monotonic_ns() - self._peer(source).heard_mono_ns) / 1e9
                text = f"{source.name} has not been heard of for {silent_s:.0f} s"
            say(text)
        self._deaths.forget(source)
        now = time.monotonic_ns()
        self._core.fold(SourceGone(source.index, how, time.time_ns(), now, text, ending))

    def _adopt(self, source: SourceState, directory: Path) -> bool:
        reader = SpoolReader(directory)
        for batch in reader.batches(source.cursor, _READ_BYTES):
            if not self._core.makes_room():
                return False
            self._take(source, batch.records)
        self._adopted[directory] = source
        return True

    def adopt_orphans(self, *, may_wait: bool = True) -> None:
        """Take in the spools of processes that were killed before we ever heard of them.
        ``may_wait``: leave those that may be of an attempt whose rank 0 has not come yet."""
        if self.is_closing:
            return
        known = {Path(s.identity.spool_path) for s in self._core.state.data.sources}
        put_off: list[Orphan] = []
        for orphan in in_launch_order(list(self._spools.orphans(known))):
            if not self._adopt_unknown(orphan, may_wait=may_wait):
                put_off.append(orphan)
            elif is_rank_zero(orphan.identity):
                # They were waiting for an attempt, and this one comes before the next.
                put_off = [
                    one for one in put_off if not self._adopt_unknown(one, may_wait=may_wait)
                ]

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

    def _remove_adopted(self) -> None:
        for directory, source in list(self._adopted.items()):
            if self._core.durable_cursor(source.index) >= source.cursor:
                del self._adopted[directory]
                if not self.keeps_spools and not _is_unreadable(directory):
                    remove_spool(directory)


def _is_unreadable(directory: Path) -> bool:
    """Whether bytes lie there and do not even say whose they are: what was in them is not known,
    and whoever looks for it may still find it."""
    reader = SpoolReader(directory)
    return reader.identity is None and reader.size_bytes > 0
