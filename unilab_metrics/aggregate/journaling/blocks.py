"""Blocks of a thousand updates in brief: kept in files of their own, made again if missing.

They are derived from the history, so a full disk costs nothing but a later start from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from unilab_metrics.aggregate.announcing.serving import REPLY_BYTES, Server
from unilab_metrics.aggregate.folding.packed import pack_values, unpack_values
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.journaling.binning import BLOCK_ENTRIES, Binner, block_start
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import (
    SEGMENT_FORMAT_VERSION,
    SegmentHeader,
    SegmentWriter,
    encode_segment_header,
    list_segments,
    open_segment,
    read_at,
    read_segment,
    segment_name,
)
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload, encode_payload
from unilab_schema.control import Blocks, Fetch, History
from unilab_schema.updates import BinBlock, Update

BLOCKS = "blocks"
_KINDS = frozenset([RecordKind.BIN_BLOCK])


class _Place(NamedTuple):
    path: Path
    offset: int
    length: int


class BlockStore:
    """Owned by the aggregator's main thread."""

    def __init__(self, bus_dir: Path, journal: Journal) -> None:
        """Index the blocks that lie there and make the missing ones from the history."""
        self._bus_dir = bus_dir
        self._journal = journal
        self._state = journal.state
        self._places: dict[int, list[_Place]] = {}
        self._segment: SegmentWriter | None = None
        self._pending: list[BinBlock] = []
        self._binner = Binner(1)
        for path in list_segments(bus_dir, BLOCKS):
            self._index(path)
        self._make_missing(Server(journal))

    def add(self, publications: Iterable[Publication]) -> None:
        """Take history entries into account, in the order of their sequences."""
        for sequence, entry, tags in publications:
            if not isinstance(entry, Update):
                continue
            if not self._binner.holds(sequence):
                self._pending += self._binner.block(self._state.columns.tags)
                self._binner = Binner(block_start(sequence))
            values = unpack_values(entry.values)
            self._binner.add(entry, self._state.columns.columns(tags), values)

    def write(self) -> None:
        """Keep the blocks that are whole; call it after a commit of what they cover."""
        if not self._pending:
            return
        try:
            segment = self._segment = self._segment or self._begin()
            for block in self._pending:
                data = encode_record(RecordKind.BIN_BLOCK, 0, encode_payload(block))
                offset = segment.append(data)
                place = _Place(segment.path, offset, len(data))
                self._places.setdefault(block.first, []).append(place)
        except (OSError, StorageFullError):
            # The next start makes them again from the history.
            pass
        self._pending.clear()

    def history(self, request: History) -> Blocks:
        """The whole blocks beyond a sequence, for some tags or all."""
        found: list[BinBlock] = []
        size = 0
        wanted = frozenset(request.tags)
        for start in sorted(self._places):
            if start <= request.after:
                continue
            for place in self._places[start]:
                block = _read(place)
                if block is not None and wanted:
                    block = _only(block, wanted)
                if block is not None and size <= REPLY_BYTES:
                    # A block of more tags than a reply holds is cut; they can be named.
                    found.append(block)
                    size += len(encode_payload(block))
            if size > REPLY_BYTES // 2:
                is_last = start == max(self._places)
                return Blocks(request.request, self._journal.epoch, tuple(found), is_last)
        return Blocks(request.request, self._journal.epoch, tuple(found), complete=True)

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()

    def _index(self, path: Path) -> None:
        data = read_segment(path)
        for record in scan(data).records:
            if record.kind != RecordKind.BIN_BLOCK:
                continue
            try:
                block = decode_payload(record.kind, record.payload)
            except FrameDecodeError:
                continue
            places = self._places.setdefault(block.first, [])
            if block.part == 0:
                places.clear()
            places.append(_Place(path, record.start, record.end - record.start))

    def _make_missing(self, server: Server) -> None:
        last = self._journal.committed_update
        for start in range(1, last + 1, BLOCK_ENTRIES):
            is_whole = start + BLOCK_ENTRIES - 1 <= last
            if is_whole and start in self._places:
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
                if record.kind == RecordKind.UPDATE:
                    update = decode_payload(record.kind, record.payload)
                    if update.layout in tags:
                        self.add([Publication(record.sequence, update, tags[update.layout])])
            if reply.last == after:
                return
            after = reply.last

    def _begin(self) -> SegmentWriter:
        epoch = self._journal.epoch
        segment = SegmentWriter.create(self._bus_dir / segment_name(BLOCKS, epoch.counter, 0))
        header = SegmentHeader(SEGMENT_FORMAT_VERSION, BLOCKS, epoch, 0)
        segment.append(encode_segment_header(header))
        return segment


def _read(place: _Place) -> BinBlock | None:
    try:
        fd = open_segment(place.path)
    except OSError:
        return None
    with open(fd, "rb", buffering=0) as file:
        data = read_at(file.fileno(), place.offset, place.length)
    records = scan(data, kinds=_KINDS).records
    try:
        return decode_payload(RecordKind.BIN_BLOCK, records[0].payload) if records else None
    except FrameDecodeError:
        return None


def _only(block: BinBlock, wanted: frozenset[str]) -> BinBlock | None:
    """The block with some of its tags; ``None`` if it has none of them."""
    keep = [position for position, tag in enumerate(block.tags) if tag in wanted]
    if not keep:
        return None

    def kept(packed: bytes) -> bytes:
        return pack_values(unpack_values(packed)[keep])

    return msgspec.structs.replace(
        block,
        tags=tuple(block.tags[position] for position in keep),
        minimum=kept(block.minimum),
        maximum=kept(block.maximum),
        mean=kept(block.mean),
        count=kept(block.count),
        latest=kept(block.latest),
        not_finite=kept(block.not_finite) if block.not_finite else b"",
        part=0,
        parts=1,
    )
