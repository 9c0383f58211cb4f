"""A run of two learners and a collector that was killed with its aggregator: on disk, complete with
spools, and what is in it by its own content. All in the process of the test."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cut_off_run import LAUNCH, kill, open_run_directory, source, spools

from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    EntryKind,
    SourceGone,
    SourceJoined,
    decode_entry,
)
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.aggregate.journaling.recovery import HISTORY_KINDS, WAL_KINDS
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import Record, encode_record, scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX, SpoolReader
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.codec import RecordKind, decode_payload
from unilab_schema.updates import BlobUpdate, EventUpdate, PointsUpdate, Supplement, Update

SEALED, LOGGED, JOURNALED = 8, 16, 12
"""Iterations that rank 1, rank 0 and the wal of rank 0 have come to."""
_BATCH_BYTES = 150
_ANNOUNCEMENTS = (RecordKind.LAYOUT, RecordKind.TAG_NAMES, RecordKind.DEFINITION)


class KilledRun:
    """``run_dir`` and the spools as the kill left them; :meth:`restore` before each trial."""

    def __init__(self, run_dir: Path, copies: Path) -> None:
        self.run_dir = run_dir
        self.bus_dir = bus_directory(run_dir)
        self._copies = copies
        self.cursors: dict[Path, int] = {}
        open_run_directory(run_dir, backends=())
        _feed(self, _logged())
        shutil.copytree(run_dir, copies / "run")
        shutil.copytree(spool_root() / LAUNCH, copies / "spools")

    def restore(self, *, trimmed: bool = False, synced: bool = True) -> None:
        """As it was. ``trimmed``: without what had been safe in the journal. ``synced``: whether
        anybody knows what had been."""
        shutil.rmtree(self.run_dir)
        shutil.rmtree(spool_root() / LAUNCH, ignore_errors=True)
        shutil.copytree(self._copies / "run", self.run_dir)
        shutil.copytree(self._copies / "spools", spool_root() / LAUNCH)
        if not synced:
            (self.bus_dir / DURABLE_FILE).unlink()
        if trimmed:
            for directory in spools():
                _trim(directory, self.cursors[directory])

    def records(self, prefix: str) -> list[tuple[Path, Record]]:
        """All of the wal's or the history's segments."""
        kinds = WAL_KINDS if prefix == "wal" else HISTORY_KINDS
        return [
            (path, record)
            for path in list_segments(self.bus_dir, prefix)
            for record in scan(path.read_bytes(), kinds=kinds).records
        ]


def _logged() -> list[Publisher]:
    zero, one, collector = source(0, learners=2), source(1, learners=2), source(0, "collector")
    zero.text("note", "once", step=3)
    for k in range(LOGGED):
        collector.log({"reward/term": k / 7})
        if k == LOGGED // 2:
            zero.event("status", "half")
        more = {"Loss/aux_new": 2.0 * k} if k > LOGGED // 2 else {}
        zero.log({"Loss/value": k / 3, **more}, iteration=k)
        if k < SEALED:
            one.log({"Loss/value": k / 3, "Loss/aux_one": float(k)}, iteration=k)
    zero.point("Eval/return", 0.5, 4)
    for publisher in (zero, one, collector):
        kill(publisher)
    return [zero, one, collector]


def _feed(run: KilledRun, publishers: list[Publisher]) -> None:
    """An aggregator that takes a few records at a time and is killed, twice."""
    streams = [_batches(Path(p.identity.spool_path)) for p in publishers]
    for life, rounds in enumerate((2, 1000)):
        # Without places to look in it finds nobody dead.
        journal = OfflineJournal(run.bus_dir, SpoolDirectories([]))
        core = journal._core
        if not life:
            for index, publisher in enumerate(publishers):
                core.fold(SourceJoined(index, publisher.identity))
        for _ in range(rounds):
            taken = [_take(journal, index, stream) for index, stream in enumerate(streams)]
            core.seal_due(frozenset)
            core.commit()
            if not any(taken):
                break
        if life:
            core.fold(SourceGone(1, "lost", 0, 0))
        for known in core.state.data.sources:
            run.cursors[Path(known.identity.spool_path)] = known.cursor
        journal.close()


def _take(journal: OfflineJournal, index: int, stream: Iterator[bytes]) -> bool:
    core = journal._core
    if index == 0 and (core.state.data.sources[0].last_iteration or 0) in range(JOURNALED, 100):
        return False
    data = next(stream, b"")
    known = core.state.data.sources[index]
    accepted = accept(known, data, _stamp(data))
    if accepted.entry is not None:
        core.fold(accepted.entry, accepted.records)
    return bool(data)


def _batches(directory: Path) -> Iterator[bytes]:
    for batch in SpoolReader(directory).batches(0, _BATCH_BYTES):
        yield batch.records


def _stamp(data: bytes) -> int:
    frames = [decode_payload(r.kind, r.payload) for r in scan(data).records]
    return max((getattr(frame, "mono_ns", 0) for frame in frames), default=0)


def _trim(directory: Path, durable: int) -> None:
    (path,) = list_segments(directory, SPOOL_PREFIX)
    data = path.read_bytes()
    pieces: list[bytes] = []
    for record in scan(data).records:
        if not record.sequence or record.sequence > durable:
            pieces.append(data[record.start : record.end])
        elif record.kind in _ANNOUNCEMENTS:
            pieces.append(encode_record(record.kind, 0, bytes(record.payload)))
    path.write_bytes(b"".join(pieces))


class Told(NamedTuple):
    """What a history says, whatever its numbers: values by iteration, and events by content."""

    values: dict[int, dict[str, float]]
    events: Counter[str]


def told(run_dir: Path) -> Told:
    """Raises ``AssertionError`` for a history with damage or holes, or an iteration told twice."""
    values: dict[int, dict[str, float]] = {}
    events: Counter[str] = Counter()
    with HistoryReader(bus_directory(run_dir)) as reader:
        for record in reader.poll(1_000_000):
            entry = record.entry
            if isinstance(entry, Update | Supplement):
                known = values.setdefault(entry.iteration, {})
                assert isinstance(entry, Supplement) or not known, f"{entry.iteration} twice"
                found = struct.unpack(f"<{len(record.tags)}d", entry.values)
                for tag, value in zip(record.tags, found, strict=True):
                    assert tag not in known, f"{tag} of {entry.iteration} twice"
                    known[tag] = value
            elif isinstance(entry, EventUpdate | PointsUpdate | BlobUpdate) and entry.source:
                events[repr(entry.frame)] += 1
        assert (reader.damaged, reader.lost_entries) == (0, 0)
    return Told(values, events)


def sequences_of(record: Record) -> tuple[int, list[int]]:
    """The source and the sequences of a batch in the wal."""
    entry = decode_entry(record.kind, record.payload)
    assert isinstance(entry, AcceptedBatch)
    return entry.source, [r.sequence for r in scan(entry.records).records if r.sequence]


def newest_batches_of(source: int, path: Path) -> list[Record]:
    """The batches of a source in a segment of the wal, which may be written to meanwhile."""
    found = scan(path.read_bytes(), kinds=WAL_KINDS).records
    batches = [record for record in found if record.kind == EntryKind.BATCH]
    return [record for record in batches if sequences_of(record)[0] == source]


def first_batch_with(data: bytes, path: Path) -> Record:
    """The first batch of learner 0 in which these bytes are."""
    return next(r for r in newest_batches_of(0, path) if data in bytes(r.payload))
