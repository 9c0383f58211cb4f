"""What damage in a history costs its readers: the damaged entry, counted and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from history_files import Segments, sequences, update

from unilab_metrics.errors import ExitCode, UnknownVersionError
from unilab_metrics.run.verifying.verify import DamagedHistoryError, verify_run
from unilab_metrics.storage.records import HEADER_BYTES, MAX_PAYLOAD_BYTES, encode_record
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory

Read = Callable[..., HistoryReader]
HEADER_FIELDS = {"magic": 0, "version": 2, "kind": 3, "length": 4, "sequence": 8, "crc": 16}


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :]


@pytest.mark.parametrize("field", [*HEADER_FIELDS, "payload"])
def test_a_flip_in_any_field_of_a_middle_entry_costs_that_entry(
    field: str, read: Read, segments: Segments
) -> None:
    path = segments.start()
    at = HEADER_FIELDS.get(field, HEADER_BYTES + 1)
    segments.append(path, update(1), flipped(update(2), at), update(3))
    reader = read()
    assert sequences(reader.poll()) == [1, 3]
    assert (reader.damaged, reader.lost_entries) == (1, 1)


def test_a_cut_at_every_byte_of_the_last_entry_is_waited_for(
    read: Read, segments: Segments
) -> None:
    path = segments.start()
    segments.append(path, update(1))
    whole = path.read_bytes()
    reader = read()
    assert sequences(reader.poll()) == [1]
    for length in range(len(update(2))):
        path.write_bytes(whole + update(2)[:length])
        assert reader.poll() == []
        assert reader.damaged_at_end() == 0, length
    path.write_bytes(whole + update(2))
    assert sequences(reader.poll()) == [2]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


@pytest.mark.parametrize("field", [*HEADER_FIELDS, "payload"])
def test_a_damaged_last_entry_is_told_when_nobody_writes_any_more(
    field: str, read: Read, segments: Segments
) -> None:
    path = segments.start()
    segments.append(path, update(1), flipped(update(2), HEADER_FIELDS.get(field, HEADER_BYTES)))
    reader = read()
    assert sequences(reader.poll()) == [1]
    assert reader.damaged_at_end() == 1
    path.write_bytes(path.read_bytes()[: -len(update(2))] + bytes(500))
    assert reader.damaged_at_end() == 0


@pytest.mark.parametrize("extra", [1, HEADER_BYTES + 5, MAX_PAYLOAD_BYTES])
def test_a_damaged_stretch_longer_than_any_record_is_passed_over_while_it_grows(
    extra: int, read: Read, segments: Segments
) -> None:
    path = segments.start()
    stretch = HEADER_BYTES + MAX_PAYLOAD_BYTES + extra
    segments.append(path, update(1), b"\xa5" * stretch)
    reader = read()
    assert sequences(reader.poll()) == [1]
    segments.append(path, update(3), update(4))
    assert sequences(reader.poll()) == [3, 4]
    segments.append(path, update(5))
    assert sequences(reader.poll()) == [5]
    assert (reader.damaged, reader.lost_entries) == (1, 1)


def test_a_stretch_of_a_torn_huge_record_hides_nothing(read: Read, segments: Segments) -> None:
    path = segments.start()
    torn = encode_record(33, 2, bytes(MAX_PAYLOAD_BYTES))[:-100]
    segments.append(path, update(1), torn, update(3))
    segments.append(path, b"\xa5" * (HEADER_BYTES + MAX_PAYLOAD_BYTES), update(4))
    reader = read()
    assert sequences(reader.poll()) == [1, 3, 4]
    assert reader.damaged == 2


def test_verify_names_damage_wherever_it_is(run_dir: Path) -> None:
    bus = bus_directory(run_dir)
    bus.mkdir(mode=0o700)
    segments = Segments(bus)
    for records in (
        (update(1), flipped(update(2), HEADER_BYTES), update(3)),
        (update(1), flipped(update(2), HEADER_BYTES)),
        (update(1), b"\xa5" * (HEADER_BYTES + MAX_PAYLOAD_BYTES + 1), update(2)),
    ):
        segments.append(segments.start(), *records)
        with pytest.raises(DamagedHistoryError) as found:
            verify_run(run_dir)
        assert found.value.exit_code == ExitCode.DAMAGED
        assert found.value.places == 1


def test_another_format_version_is_refused_with_its_exit_code(
    read: Read, segments: Segments
) -> None:
    path = segments.start()
    path.write_bytes(encode_record(KIND_SEGMENT_HEADER, 0, b"\x91\x07") + update(1))
    with pytest.raises(UnknownVersionError) as refused:
        read().poll()
    assert refused.value.exit_code == ExitCode.DAMAGED
