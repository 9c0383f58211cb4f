"""Every way in which a record can be damaged, and what a scan makes of it."""

from __future__ import annotations

import struct
import time
from itertools import pairwise

import pytest

from unilab_metrics.storage.records import (
    HEADER,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    encode_record,
    scan,
)

RECORDS = [encode_record(kind, 10 + kind, bytes(range(kind * 7))) for kind in range(1, 6)]
BUFFER = b"".join(RECORDS)
STARTS = [sum(map(len, RECORDS[:index])) for index in range(len(RECORDS) + 1)]


def test_the_header_has_twenty_bytes_in_the_documented_order():
    assert HEADER_BYTES == 20
    record = encode_record(7, 2**63, b"abc")
    assert record[:4] == b"um\x01\x07"
    assert struct.unpack("<IQ", record[4:16]) == (3, 2**63)
    assert record[20:] == b"abc"


def test_good_records_come_back_whole_and_in_order():
    result = scan(BUFFER)
    assert [(r.kind, r.sequence, bytes(r.payload)) for r in result.records] == [
        (kind, 10 + kind, bytes(range(kind * 7))) for kind in range(1, 6)
    ]
    assert [(r.start, r.end) for r in result.records] == list(pairwise(STARTS))
    assert result.valid_bytes == len(BUFFER)
    assert result.damaged == []
    assert not result.tail_reason


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview], ids=["bytes", "array", "view"])
def test_every_kind_of_buffer_is_scanned(make: type):
    assert len(scan(make(BUFFER)).records) == len(RECORDS)


def test_a_payload_view_cannot_be_written_through():
    assert scan(bytearray(BUFFER)).records[0].payload.readonly


def test_an_empty_buffer_has_no_tail():
    result = scan(b"")
    assert result.records == []
    assert result.valid_bytes == 0
    assert not result.tail_reason


def test_an_empty_payload_is_a_record():
    assert bytes(scan(encode_record(1, 1, b"")).records[0].payload) == b""


def test_a_cut_at_every_byte_of_the_last_record_is_a_torn_tail():
    for cut in range(STARTS[-2], STARTS[-1]):
        result = scan(BUFFER[:cut])
        assert [r.sequence for r in result.records] == [11, 12, 13, 14], cut
        assert result.valid_bytes == STARTS[-2]
        assert result.damaged == []
        assert bool(result.tail_reason) == (cut > STARTS[-2])


def test_a_cut_is_healed_by_the_bytes_that_follow_later():
    for cut in range(STARTS[-2], STARTS[-1]):
        valid = scan(BUFFER[:cut]).valid_bytes
        assert [r.sequence for r in scan(BUFFER[valid:]).records] == [15]


@pytest.mark.parametrize("bit", range(8))
def test_a_flip_in_any_byte_of_a_middle_record_costs_that_record_only(bit: int):
    for at in range(STARTS[1], STARTS[2]):
        flipped = bytearray(BUFFER)
        flipped[at] ^= 1 << bit
        result = scan(flipped)
        assert [r.sequence for r in result.records] == [11, 13, 14, 15], at
        assert [(d.start, d.end) for d in result.damaged] == [(STARTS[1], STARTS[2])]
        assert result.valid_bytes == len(BUFFER)


@pytest.mark.parametrize("bit", range(8))
def test_a_flip_in_any_byte_of_the_last_record_is_a_tail(bit: int):
    for at in range(STARTS[-2], STARTS[-1]):
        flipped = bytearray(BUFFER)
        flipped[at] ^= 1 << bit
        result = scan(flipped)
        assert [r.sequence for r in result.records] == [11, 12, 13, 14], at
        assert result.valid_bytes == STARTS[-2]
        assert result.damaged == []
        assert result.tail_reason


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [(0, b"xx", "no record"), (2, b"\x02", "version 2"), (16, b"\0\0\0\0", "checksum")],
)
def test_damage_names_its_reason(offset: int, value: bytes, reason: str):
    spoiled = bytearray(BUFFER)
    spoiled[STARTS[2] + offset : STARTS[2] + offset + len(value)] = value
    assert scan(spoiled).damaged[0].reason.startswith(reason)


@pytest.mark.parametrize("zeros", [1, 19, 20, 21, 4096])
def test_a_zeroed_tail_is_a_tail(zeros: int):
    result = scan(BUFFER + bytes(zeros))
    assert len(result.records) == len(RECORDS)
    assert result.valid_bytes == len(BUFFER)
    assert result.damaged == []
    assert result.tail_reason


def test_zeros_in_the_middle_are_damage():
    spoiled = BUFFER[: STARTS[2]] + bytes(STARTS[4] - STARTS[2]) + BUFFER[STARTS[4] :]
    result = scan(spoiled)
    assert [r.sequence for r in result.records] == [11, 12, 15]
    assert [(d.start, d.end) for d in result.damaged] == [(STARTS[2], STARTS[4])]


@pytest.mark.parametrize(
    "garbage", [b"u", b"um", b"um\x01", b"umum\x01um", b"\xff" * 100, b"um\x01" * 50]
)
def test_garbage_between_records_is_passed_over(garbage: bytes):
    result = scan(RECORDS[0] + garbage + RECORDS[1] + RECORDS[2])
    assert [r.sequence for r in result.records] == [11, 12, 13]
    start = len(RECORDS[0])
    assert [(d.start, d.end) for d in result.damaged] == [(start, start + len(garbage))]


def test_garbage_before_the_first_record_is_damage():
    result = scan(b"garbage" + BUFFER)
    assert len(result.records) == len(RECORDS)
    assert result.damaged[0][:2] == (0, 7)


@pytest.mark.parametrize("length", [MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1, 2**31, 2**32 - 1])
def test_a_huge_length_in_the_middle_hides_nothing_behind_it(length: int):
    spoiled = bytearray(BUFFER)
    struct.pack_into("<I", spoiled, STARTS[1] + 4, length)
    result = scan(spoiled)
    assert [r.sequence for r in result.records] == [11, 13, 14, 15]
    assert len(result.damaged) == 1


def test_a_plausible_record_beyond_the_buffer_is_waited_for_when_more_follows():
    torn = BUFFER + encode_record(1, 99, encode_record(2, 100, b"inner") * 3)[:-4]
    result = scan(torn, complete=False)
    assert result.valid_bytes == len(BUFFER)
    assert result.tail_reason == "record is not complete"
    assert [r.sequence for r in result.records] == [11, 12, 13, 14, 15]


def test_inner_records_of_a_torn_outer_one_are_left_alone_when_kinds_are_given():
    inner = encode_record(3, 1, b"a") + encode_record(3, 2, b"b")
    outer = [encode_record(64, 7, inner), encode_record(64, 8, inner)]
    assert [r.sequence for r in scan(outer[0] + outer[1][:-1], kinds={64}).records] == [7]
    flipped = bytearray(outer[0] + outer[1])
    flipped[HEADER_BYTES] ^= 1
    result = scan(flipped, kinds={64})
    assert [r.sequence for r in result.records] == [8]
    assert result.damaged[0][:2] == (0, len(outer[0]))


def test_a_record_of_another_kind_is_damage_when_kinds_are_given():
    result = scan(BUFFER, kinds={1, 2, 4, 5})
    assert [r.sequence for r in result.records] == [11, 12, 14, 15]
    assert result.damaged[0].reason == "kind 3"


def test_a_payload_beyond_the_limit_is_refused_when_encoding():
    with pytest.raises(ValueError, match="exceeds"):
        encode_record(1, 1, bytes(MAX_PAYLOAD_BYTES + 1))


def test_crafted_headers_do_not_make_the_search_quadratic():
    # Each header claims a payload that reaches the end, so each would be checked to the end.
    size = 512 * 1024
    crafted = bytearray()
    while len(crafted) < size:
        length = size - len(crafted) - HEADER_BYTES
        crafted += HEADER.pack(b"um", 1, 3, max(0, length), 1, 0)
    started_s = time.process_time()
    result = scan(bytes(crafted[:size]))
    assert time.process_time() - started_s < 2.0
    assert result.records == []
