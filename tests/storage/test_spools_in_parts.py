"""Long spools of dead processes: read in parts, of which hardly anything is held meanwhile."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import pytest

from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import segment_name
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame, Layout
from unilab_schema.identity import Identity, SourceKey

_IDENTITY = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "/s", "/s/lease", 0, 0)
_FIRST = (
    encode_record(RecordKind.IDENTITY, 0, encode_payload(_IDENTITY)),
    encode_record(RecordKind.LAYOUT, 0, encode_payload(Layout(1, ("tag",)))),
)


def _record(sequence: int, text: str) -> bytes:
    frame = EventFrame("status", text, sequence, sequence)
    return encode_record(RecordKind.EVENT, sequence, encode_payload(frame))


def _write(directory: Path, records: list[bytes]) -> None:
    directory.mkdir()
    path = directory / segment_name("spool", 1, 1)
    path.write_bytes(b"".join((*_FIRST, *records)))


def test_a_spool_that_waits_for_its_turn_holds_neither_its_segment_nor_a_file(
    tmp_path: Path,
) -> None:
    places = [tmp_path / str(number) for number in range(4)]
    records = [_record(sequence, "x" * 1000) for sequence in range(1, 4001)]
    for place in places:
        _write(place, records)
    before = set(os.listdir("/dev/fd"))
    tracemalloc.start()
    try:
        begun = [SpoolReader(place).batches(0, 65536) for place in places]
        first = [next(batches) for batches in begun]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(os.listdir("/dev/fd")) == before
    assert held < len(places) * len(b"".join(records)) // 8
    for one, rest in zip(first, begun, strict=True):
        found = [scan(batch.records).records for batch in (one, *rest)]
        assert [r.sequence for part in found for r in part] == list(range(1, 4001))


@pytest.mark.parametrize("seed", range(6))
def test_damage_far_from_the_beginning_is_covered_with_what_the_segment_announces(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    records = [_record(n, "y" * rng.choice([10, 3000, 90_000])) for n in range(1, 101)]
    damaged = sorted(rng.sample(range(60, 99), 2))
    for nth in damaged:
        records[nth] = records[nth][:-1] + bytes([records[nth][-1] ^ 1])
    _write(tmp_path / "spool", records)
    found = [
        record
        for batch in SpoolReader(tmp_path / "spool").batches(0, 65536)
        for record in scan(batch.records).records
    ]
    kinds = [record.kind for record in found]
    gaps = [at for at, kind in enumerate(kinds) if kind == RecordKind.GAP]
    covered = [decode_payload(found[at].kind, found[at].payload) for at in gaps]
    assert [n for gap in covered for n in range(gap.first, gap.last + 1)] == [
        nth + 1 for nth in damaged
    ]
    assert all(kinds[at + 1] == RecordKind.LAYOUT for at in gaps)
    good = [record.sequence for record in found if record.kind == RecordKind.EVENT]
    assert good == [n for n in range(1, 101) if n - 1 not in damaged]
