"""What damage in a spool costs its source: the damaged record, counted and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unilab_metrics.storage.records import HEADER, HEADER_BYTES, encode_record, scan
from unilab_metrics.storage.segments import segment_name
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame
from unilab_schema.identity import Identity, SourceKey

IDENTITY = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "/s", "/s/lease", 0, 0)
HEADER_FIELDS = {"magic": 0, "version": 2, "kind": 3, "length": 4, "sequence": 8, "crc": 16}


def record(sequence: int) -> bytes:
    frame = EventFrame("status", f"event {sequence}", sequence, sequence)
    return encode_record(RecordKind.EVENT, sequence, encode_payload(frame))


def write(directory: Path, number: int, *pieces: bytes) -> Path:
    path = directory / segment_name("spool", 1, number)
    identity = encode_record(RecordKind.IDENTITY, 0, encode_payload(IDENTITY))
    path.write_bytes(identity + b"".join(pieces))
    return path


def read(directory: Path, after: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """Sequences that came back, and the gaps; together they have no hole."""
    good: list[int] = []
    gaps: list[tuple[int, int]] = []
    reached = after
    for batch in SpoolReader(directory).batches(after):
        for found in scan(batch.records).records:
            if found.kind == RecordKind.GAP:
                gap = decode_payload(found.kind, found.payload)
                gaps.append((gap.first, gap.last))
                assert gap.first == reached + 1
            else:
                good.append(found.sequence)
                assert found.sequence == reached + 1
            reached = found.sequence
        assert batch.last == reached
    return good, gaps


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


@pytest.mark.parametrize("bit", [0, 5])
def test_a_flip_in_any_byte_of_any_record_costs_that_record(bit: int, tmp_path: Path) -> None:
    for damaged in (1, 2, 3):
        for at in range(len(record(damaged))):
            pieces = [record(n) for n in (1, 2, 3)]
            pieces[damaged - 1] = flipped(pieces[damaged - 1], at, bit)
            write(tmp_path, 1, *pieces)
            good, gaps = read(tmp_path)
            assert good == [n for n in (1, 2, 3) if n != damaged], (damaged, at)
            assert gaps == [(damaged, damaged)]


@pytest.mark.parametrize("field", HEADER_FIELDS)
@pytest.mark.parametrize("value", [0x00, 0x7F, 0xFF])
def test_any_value_in_any_header_field_costs_that_record(
    field: str, value: int, tmp_path: Path
) -> None:
    at = HEADER_FIELDS[field]
    broken = bytearray(record(2))
    broken[at] = value if broken[at] != value else value ^ 1
    write(tmp_path, 1, record(1), bytes(broken), record(3))
    assert read(tmp_path) == ([1, 3], [(2, 2)])


def test_a_cut_at_every_byte_of_the_last_record_loses_nothing_that_was_logged(
    tmp_path: Path,
) -> None:
    for length in range(len(record(3))):
        write(tmp_path, 1, record(1), record(2), record(3)[:length])
        assert read(tmp_path) == ([1, 2], []), length


@pytest.mark.parametrize("zeros", [1, 10, 24, 5000])
def test_a_zeroed_tail_is_no_record(zeros: int, tmp_path: Path) -> None:
    write(tmp_path, 1, record(1), record(2), bytes(zeros))
    assert read(tmp_path) == ([1, 2], [])


def test_a_missing_segment_is_one_gap(tmp_path: Path) -> None:
    write(tmp_path, 1, record(1), record(2))
    write(tmp_path, 2, record(3), record(4)).unlink()
    write(tmp_path, 3, record(5))
    assert read(tmp_path) == ([1, 2, 5], [(3, 4)])
    (tmp_path / segment_name("spool", 1, 1)).unlink()
    assert read(tmp_path) == ([5], [(1, 4)])
    assert read(tmp_path, 4) == ([5], [])


@pytest.mark.parametrize(
    "garbage",
    [b"u", b"um\x01", b"um\x01\x08" + bytes(19), b"\xa5um\x01\x07" * 200, b"\xa5" * 17_000_000],
    ids=lambda garbage: str(len(garbage)),
)
def test_garbage_in_the_middle_costs_what_it_covers(garbage: bytes, tmp_path: Path) -> None:
    write(tmp_path, 1, record(1), garbage, record(2), record(3))
    assert read(tmp_path) == ([1, 2, 3], [])
    write(tmp_path, 1, record(1), garbage, record(3))
    assert read(tmp_path) == ([1, 3], [(2, 2)])


def test_damage_at_the_end_of_a_segment_is_covered_by_the_next_one(tmp_path: Path) -> None:
    write(tmp_path, 1, record(1), flipped(record(2), HEADER_BYTES + 3))
    write(tmp_path, 2, record(3))
    assert read(tmp_path) == ([1, 3], [(2, 2)])


def test_a_damaged_identity_is_found_in_a_later_segment(tmp_path: Path) -> None:
    first = write(tmp_path, 1, record(1))
    first.write_bytes(flipped(first.read_bytes(), HEADER_BYTES + 2))
    write(tmp_path, 2, record(2))
    assert SpoolReader(tmp_path).identity == IDENTITY
    assert read(tmp_path) == ([1, 2], [])


def test_a_later_version_of_a_record_is_passed_over_as_damage(tmp_path: Path) -> None:
    magic, _, kind, length, sequence, crc = HEADER.unpack_from(record(2))
    later = HEADER.pack(magic, 9, kind, length, sequence, crc) + record(2)[HEADER_BYTES:]
    write(tmp_path, 1, record(1), later, record(3))
    assert read(tmp_path) == ([1, 3], [(2, 2)])
