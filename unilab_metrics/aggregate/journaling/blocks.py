"""Blocks of a thousand updates in brief: kept in files of their own, made again if missing.

They are derived from the history, so a full disk costs nothing but a later start from there. One
that tells of entries which a node's loss has taken back is made again too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.folding.packed import unpack_values
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.journaling.binning import BLOCK_ENTRIES, Binner, block_start
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.block_files import BLOCKS, BlockFiles, BlockPlace
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import (
    SEGMENT_FORMAT_VERSION,
    SegmentHeader,
    SegmentWriter,
    counter_of,
    encode_segment_header,
    segment_name,
)
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.requests import Blocks, Fetch, History
from unilab_schema.updates import AttemptOpened, BinBlock, PointsUpdate, Supplement, Update

_BUDGET_S = 0.008
"""Of one answer: nothing else is done meanwhile."""
_BINNED = frozenset([RecordKind.UPDATE, RecordKind.SUPPLEMENT])
_BESIDE = frozenset([RecordKind.POINTS_UPDATE, RecordKind.ATTEMPT_OPENED])


class BlockStore:
    """Owned by the aggregator's main thread."""

    def __init__(self, bus_dir: Path, journal: Journal) -> None:
        """Index the blocks that lie there and make the missing ones from the history."""
        self._bus_dir = bus_dir
        self._journal = journal
        self._state = journal.state
        self._files = BlockFiles(bus_dir)
        self._segment: SegmentWriter | None = None
        self._pending: list[BinBlock] = []
        self._binner = Binner(1)
        self._opened: AttemptOpened | None = None
        self._files.look()
        begins = [(counter_of(path), first) for path, first, _ in journal.segments]
        self._files.keep(begins, journal.committed_update)
        self._make_missing(Server(journal))

    def add(self, publications: Iterable[Publication]) -> None:
        """Take history entries into account, in the order of their sequences."""
        for sequence, entry, tags in publications:
            if isinstance(entry, AttemptOpened):
                self._opened = entry
            if not isinstance(entry, Update | Supplement | PointsUpdate):
                continue
            if not self._binner.holds(sequence):
                self._pending += self._binner.block(self._state.columns.tags)
                self._binner = Binner(block_start(sequence))
            if isinstance(entry, PointsUpdate):
                self._binner.add_points(entry, self._start_of(entry.attempt))
                continue
            values = unpack_values(entry.values)
            self._binner.add(entry, self._state.columns.columns(tags), values)

    def _start_of(self, attempt: int) -> AttemptOpened | None:
        data = self._state.data
        is_known = self._opened is not None and self._opened.attempt == attempt
        if not is_known and data.opened and data.attempt == attempt:
            # Of an attempt that goes on after a restart of the aggregator.
            opened_ns, earlier_s = data.opened_unix_ns, data.earlier_elapsed_s
            self._opened = AttemptOpened(attempt, opened_ns, data.run, earlier_s)
        return self._opened

    def write(self) -> None:
        """Keep the blocks that are whole; call it after a commit of what they cover."""
        if not self._pending:
            return
        try:
            segment = self._segment = self._segment or self._begin()
            for block in self._pending:
                data = encode_record(RecordKind.BIN_BLOCK, 0, encode_payload(block))
                offset = segment.append(data)
                place = BlockPlace(segment.path, offset, len(data))
                self._files.note(block.first, block.last, block.part, place)
        except (OSError, StorageFullError):
            # The next start makes them again from the history.
            pass
        self._pending.clear()

    def history(self, request: History) -> Blocks:
        """The whole blocks beyond a sequence, for some tags or all; as many as a few milliseconds
        and one message allow."""
        found = self._files.read(request.tags, request.after, budget_s=_BUDGET_S)
        blocks, first, last, complete = found
        return Blocks(request.request, self._journal.epoch, blocks, complete, first, last)

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()

    def _make_missing(self, server: Server) -> None:
        last = self._journal.committed_update
        for start in range(1, last + 1, BLOCK_ENTRIES):
            is_whole = start + BLOCK_ENTRIES - 1 <= last
            if is_whole and start in self._files:
                continue
            self._binner = Binner(start)
            self._bin_history(server, start)
            if is_whole:
                self._pending += self._binner.block(self._state.columns.tags)
                self._binner = Binner(start + BLOCK_ENTRIES)
        self.write()

    def _bin_history(self, server: Server, start: int) -> None:
        after = start - 1
        last = min(start + BLOCK_ENTRIES - 1, self._journal.committed_update)
        while after < last:
            reply = server.updates(Fetch(0, after, last - after))
            tags = {layout.layout: layout.tags for layout in reply.layouts}
            for record in scan(reply.records).records:
                if record.kind in _BINNED:
                    update = decode_payload(record.kind, record.payload)
                    if update.layout in tags:
                        self.add([Publication(record.sequence, update, tags[update.layout])])
                elif record.kind in _BESIDE:
                    entry = decode_payload(record.kind, record.payload)
                    self.add([Publication(record.sequence, entry, ())])
            if reply.last == after:
                return
            after = reply.last

    def _begin(self) -> SegmentWriter:
        epoch = self._journal.epoch
        segment = SegmentWriter.create(self._bus_dir / segment_name(BLOCKS, epoch.counter, 0))
        header = SegmentHeader(SEGMENT_FORMAT_VERSION, BLOCKS, epoch, 0)
        segment.append(encode_segment_header(header))
        return segment
