"""What damage in a history costs, and what it does not; formats that are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from history_files import Segments, layout, sequences, update

from unilab_metrics.errors import ExitCode, UnknownVersionError
from unilab_metrics.storage.records import HEADER_BYTES, encode_record
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, segment_name
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.codec import RecordKind

Read = Callable[..., HistoryReader]


def test_a_torn_tail_before_the_next_epoch_is_no_damage(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    valid_bytes = first.stat().st_size
    segments.append(first, update(2)[:-5])
    reader = read()
    assert sequences(reader.poll()) == [1]
    segments.append(segments.start(2, after=first, valid_bytes=valid_bytes), update(2))
    assert sequences(reader.poll()) == [2]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_a_damaged_record_in_the_middle_is_counted_and_later_ones_live(
    read: Read, segments: Segments
):
    path = segments.start()
    start = path.stat().st_size
    for at in range(len(update(2))):
        segments.start()
        segments.append(path, update(1), update(2), update(3))
        content = bytearray(path.read_bytes())
        content[start + len(update(1)) + at] ^= 0x10
        path.write_bytes(content)
        reader = read()
        assert sequences(reader.poll()) == [1, 3], at
        assert (reader.damaged, reader.lost_entries) == (1, 1)
        reader.close()


def test_damage_is_counted_once_although_it_is_read_again(read: Read, segments: Segments):
    path = segments.start()
    segments.append(path, update(1), update(2), b"garbage", update(3), b"garbage", update(4))
    reader = read()
    for _ in range(3):
        reader.poll(up_to=1)
    assert reader.damaged == 0
    assert sequences(reader.poll(up_to=3)) == [2, 3]
    assert sequences(reader.poll()) == [4]
    assert reader.damaged == 2


def test_a_closed_segment_that_ends_in_damage_is_counted(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    broken = bytearray(update(2))
    broken[-1] ^= 1
    segments.append(first, bytes(broken))
    segments.append(segments.start(number=1, after=first), update(3))
    reader = read()
    assert sequences(reader.poll()) == [1, 3]
    assert (reader.damaged, reader.lost_entries) == (1, 1)


def test_a_closed_segment_that_lost_its_end_is_counted(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1), update(2))
    segments.append(segments.start(number=1, after=first), update(3))
    first.write_bytes(first.read_bytes()[: -len(update(2))])
    reader = read()
    assert sequences(reader.poll()) == [1, 3]
    assert (reader.damaged, reader.lost_entries) == (1, 1)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_live_segment_that_is_cut_off_is_read_on(read: Read, segments: Segments, left: int):
    path = segments.start()
    header = path.stat().st_size
    segments.append(path, *(update(n) for n in range(1, 6)))
    reader = read()
    assert sequences(reader.poll()) == [1, 2, 3, 4, 5]
    os.truncate(path, header + left * len(update(1)) if left else 0)
    segments.append(path, layout(), update(6))
    assert sequences(reader.poll()) == [6]
    assert reader.damaged
    segments.append(path, update(7))
    assert sequences(reader.poll()) == [7]
    assert reader.lost_entries == 0


@pytest.mark.parametrize("zeros", [100, 3 * 1024 * 1024])
def test_zeros_in_the_middle_are_passed_over(read: Read, segments: Segments, zeros: int):
    path = segments.start()
    segments.append(path, update(1), bytes(zeros), update(2))
    reader = read()
    assert sequences(reader.poll()) == [1, 2]
    assert reader.damaged == 1


def test_zeros_at_the_end_of_a_live_segment_are_waited_out(read: Read, segments: Segments):
    path = segments.start()
    segments.append(path, update(1), bytes(500))
    reader = read()
    assert sequences(reader.poll()) == [1]
    assert reader.poll() == []
    assert reader.damaged == 0


def test_a_huge_length_does_not_hide_what_follows(read: Read, segments: Segments):
    path = segments.start()
    broken = bytearray(update(2))
    broken[4:8] = (15 * 1024 * 1024).to_bytes(4, "little")
    segments.append(path, update(1), bytes(broken), update(3))
    reader = read()
    assert sequences(reader.poll()) == [1, 3]
    assert reader.damaged == 1


def test_an_update_without_its_layout_is_damage(read: Read, segments: Segments):
    path = segments.start(layouts=b"")
    segments.append(
        path, update(1), layout(3, ("a", "b")), update(2, number=3), update(3, 1.0, number=3)
    )
    reader = read()
    assert sequences(reader.poll()) == [2]
    assert (reader.damaged, reader.lost_entries, reader.cursor) == (2, 2, 3)


def test_payloads_that_do_not_decode_are_damage(read: Read, segments: Segments):
    path = segments.start()
    segments.append(
        path,
        encode_record(RecordKind.UPDATE, 1, b"\xc1"),
        encode_record(63, 2, b"\x90"),
        encode_record(RecordKind.UPDATE_LAYOUT, 0, b"\x91"),
        update(3),
    )
    reader = read()
    assert sequences(reader.poll()) == [3]
    assert (reader.damaged, reader.lost_entries) == (3, 2)


def test_a_missing_segment_costs_its_entries_only(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    second = segments.start(number=1, after=first)
    segments.append(second, update(2), update(3))
    third = segments.start(number=2, after=second)
    segments.append(third, update(4))
    second.unlink()
    reader = read()
    assert sequences(reader.poll()) == [1, 4]
    assert reader.lost_entries == 2


def test_a_damaged_header_costs_nothing_else(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    second = segments.start(number=1, after=first)
    segments.append(second, update(2))
    segments.append(segments.start(number=2, after=second), update(3))
    content = bytearray(second.read_bytes())
    content[HEADER_BYTES + 3] ^= 1
    second.write_bytes(content)
    reader = read()
    assert sequences(reader.poll()) == [1, 2, 3]
    assert reader.damaged >= 1
    assert reader.lost_entries == 0


def test_another_format_version_is_refused_from_the_first_poll_on(
    read: Read, segments: Segments, tmp_path: Path
):
    path = segments.start()
    segments.append(path, update(1))
    reader = read()
    assert sequences(reader.poll()) == [1]
    later = encode_record(KIND_SEGMENT_HEADER, 0, b"\x91\x02")
    (tmp_path / segment_name("history", 2, 0)).write_bytes(later + update(2))
    for again in (reader, read()):
        with pytest.raises(UnknownVersionError) as caught:
            again.poll()
        assert caught.value.exit_code == ExitCode.DAMAGED
