"""Folding a wal once more, to see that it gives what the history holds. Reads only.

Folding asks no clock, so the updates must come out the same, byte for byte. The wal is kept
from one of the last snapshots on, so only the updates after that can be made again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    Entry,
    EntryKind,
    GapFound,
    decode_entry,
)
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.journaling.recovery import is_copy, since_snapshot
from unilab_metrics.errors import DamagedFileError, VerificationError
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    list_segments,
    open_segment,
    read_at,
    read_segment_header,
)
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload

_KINDS = frozenset([KIND_SEGMENT_HEADER, *EntryKind])


class Refold:
    """One pass over a wal. ``first_update``: the update sequence from which on updates are made
    again. ``damaged``: places that could not be read. ``reasons``: why records of a source are
    lost, as far as the wal still says it. Raises ``OSError`` and ``UnknownVersionError``."""

    def __init__(self, bus_dir: Path) -> None:
        self._paths = list_segments(bus_dir, "wal")
        self.has_wal = bool(self._paths)
        self.state = AggregatorState()
        self.first_update = 1
        self.damaged = 0
        self.reasons: dict[int, dict[str, int]] = {}

    def publications(self) -> Iterator[Publication]:
        """Every update that the wal gives, in order. Raises ``VerificationError`` for a record
        that is there twice, or that is there and named lost."""
        limits = self._valid_lengths()
        is_first = True
        for path in self._paths:
            records = self._records(path, limits.get(path.name))
            for record in since_snapshot(records) if path == self._paths[0] else records:
                if record.kind == KIND_SEGMENT_HEADER:
                    continue
                if record.kind == EntryKind.SNAPSHOT:
                    self._take_snapshot(record, is_first=is_first)
                    is_first = False
                    continue
                is_first = False
                try:
                    entry = decode_entry(record.kind, record.payload)
                    if is_copy(self.state, entry):
                        continue
                    self._check(entry)
                    published = self.state.handle(entry)
                except (FrameDecodeError, IndexError):
                    self.damaged += 1
                    continue
                yield from published

    def _take_snapshot(self, record: Record, *, is_first: bool) -> None:
        try:
            state = AggregatorState(bytes(record.payload))
        except msgspec.MsgspecError:
            self.damaged += 1
            return
        self.state = state
        if is_first:
            self.first_update = state.data.next_update

    def _check(self, entry: Entry) -> None:
        """The accept rule, once more."""
        if self.damaged:
            return  # what is missing explains any hole
        if isinstance(entry, GapFound):
            source = self.state.data.sources[entry.source]
            if entry.first != source.cursor + 1 or entry.last < entry.first:
                raise VerificationError(_forged(source, entry.first, entry.last))
            self._count(source, entry.reason, entry.last - entry.first + 1)
        elif isinstance(entry, AcceptedBatch):
            self._check_batch(self.state.data.sources[entry.source], entry.records)

    def _check_batch(self, source: SourceState, data: bytes) -> None:
        cursor = source.cursor
        for record in scan(data).records:
            if record.sequence == 0:
                continue
            if record.kind == RecordKind.GAP:
                gap = decode_payload(RecordKind.GAP, record.payload)
                if gap.first > cursor + 1 or gap.last <= cursor or gap.last != record.sequence:
                    raise VerificationError(_forged(source, gap.first, gap.last))
                self._count(source, gap.reason, gap.last - gap.first + 1)
            elif record.sequence <= cursor:
                raise VerificationError(f"record {record.sequence} of {_name(source)} is in twice")
            elif record.sequence > cursor + 1:
                raise VerificationError(
                    f"records {cursor + 1} to {record.sequence - 1} of {_name(source)} are "
                    "neither in the journal nor named lost"
                )
            cursor = record.sequence

    def _count(self, source: SourceState, reason: str, frames: int) -> None:
        reasons = self.reasons.setdefault(source.index, {})
        reasons[reason] = reasons.get(reason, 0) + frames

    def _valid_lengths(self) -> dict[str, int]:
        limits: dict[str, int] = {}
        for path in self._paths:
            try:
                header = read_segment_header(path)
            except DamagedFileError:
                continue
            if header is not None:
                limits[header.previous_name] = header.previous_valid_bytes
        return limits

    def _records(self, path: Path, limit: int | None) -> list[Record]:
        try:
            fd = open_segment(path)
        except FileNotFoundError:
            return []  # a live aggregator has removed it
        try:
            size = os.fstat(fd).st_size
            data = read_at(fd, 0, size if limit is None else min(size, limit))
        finally:
            os.close(fd)
        found = scan(data, kinds=_KINDS)
        self.damaged += len(found.damaged)
        return found.records


def _forged(source: SourceState, first: int, last: int) -> str:
    return (
        f"records {first} to {last} of {_name(source)} are named lost after the journal had "
        f"{source.cursor}"
    )


def _name(source: SourceState) -> str:
    return f"the {source.identity.key.place} (pid {source.identity.pid})"
