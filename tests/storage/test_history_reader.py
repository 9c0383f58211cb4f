"""Reading history files that grow, rotate, are torn or superseded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from history_files import TAGS, Segments, layout, sequences, update

from unilab_metrics.storage.records import HEADER_BYTES, encode_record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER
from unilab_metrics.subscribe import history
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate, RunEnded, Supplement, Update

Read = Callable[..., HistoryReader]


def test_without_files_there_is_nothing_yet(read: Read, segments: Segments, tmp_path: Path):
    reader = read()
    assert reader.poll() == []
    path = segments.start()
    assert reader.poll() == []
    segments.append(path, update(1))
    assert sequences(reader.poll()) == [1]
    assert HistoryReader(tmp_path / "missing").poll() == []


def test_values_come_with_their_tags(read: Read, segments: Segments):
    path = segments.start()
    segments.append(path, update(1, np.nan, -np.inf))
    record = read().poll()[0]
    assert record.tags == TAGS
    assert np.array_equal(record.values(), [np.nan, -np.inf], equal_nan=True)
    assert record.values().dtype == np.float64


def test_every_kind_of_entry_is_returned_in_order(read: Read, segments: Segments):
    path = segments.start()
    event = EventUpdate(1, None, EventFrame("status", "x", 1, 1))
    late = Supplement(1, 1, None, 0, 0, 0.0, 1, np.array([7.0]).tobytes())
    segments.append(
        path,
        update(1),
        encode_record(RecordKind.EVENT_UPDATE, 2, encode_payload(event)),
        layout(1, ("late",)),
        encode_record(RecordKind.SUPPLEMENT, 3, encode_payload(late)),
        encode_record(RecordKind.RUN_ENDED, 4, encode_payload(RunEnded(1, "completed", 5))),
    )
    reader = read()
    records = reader.poll()
    assert [type(r.entry) for r in records] == [Update, EventUpdate, Supplement, RunEnded]
    assert sequences(records) == [1, 2, 3, 4]
    assert records[2].tags == ("late",)
    assert records[2].values().tolist() == [7.0]
    assert records[1].tags == ()
    assert records[1].values().size == 0
    assert (reader.damaged, reader.lost_entries, reader.cursor) == (0, 0, 4)


def test_a_growing_file_is_followed_at_any_cut(read: Read, segments: Segments):
    path = segments.start()
    whole = path.read_bytes() + b"".join(update(i) for i in range(1, 4))
    reader = read()
    seen: list[int] = []
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        seen += sequences(reader.poll())
    assert seen == [1, 2, 3]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_a_cursor_passes_over_what_is_known(read: Read, segments: Segments):
    path = segments.start()
    segments.append(path, *(update(i) for i in range(1, 6)))
    assert sequences(read(3).poll()) == [4, 5]
    assert read(5).poll() == []


def test_limits_leave_the_rest_for_later(read: Read, segments: Segments):
    path = segments.start()
    segments.append(path, *(update(i) for i in range(1, 11)))
    reader = read()
    assert sequences(reader.poll(max_records=3)) == [1, 2, 3]
    assert sequences(reader.poll(up_to=5)) == [4, 5]
    assert reader.poll(up_to=5) == []
    assert sequences(reader.poll(max_records=2, up_to=8)) == [6, 7]
    assert sequences(reader.poll()) == [8, 9, 10]


def test_rotation_is_followed(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1), update(2))
    reader = read()
    assert sequences(reader.poll()) == [1, 2]
    segments.append(first, update(3))
    second = segments.start(number=1, after=first)
    segments.append(second, update(4))
    third = segments.start(number=2, after=second, layouts=layout(7, ("only",)))
    segments.append(third, update(5, 1.5, number=7))
    records = reader.poll()
    assert sequences(records) == [3, 4, 5]
    assert records[-1].tags == ("only",)
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_what_was_appended_just_before_a_rotation_is_not_passed_over(
    read: Read, segments: Segments, monkeypatch: pytest.MonkeyPatch
):
    first = segments.start()
    segments.append(first, update(1))
    reader = read()
    assert sequences(reader.poll()) == [1]
    real = history.read_at
    rotated = False

    def read_then_rotate(fd: int, offset: int, max_bytes: int) -> bytes:
        nonlocal rotated
        data = real(fd, offset, max_bytes)
        if not rotated:
            rotated = True
            segments.append(first, update(2), update(3))
            segments.append(segments.start(number=1, after=first), update(4))
        return data

    monkeypatch.setattr(history, "read_at", read_then_rotate)
    assert sequences(reader.poll()) == [2, 3, 4]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_reading_begins_at_the_segment_of_the_cursor(
    read: Read, segments: Segments, monkeypatch: pytest.MonkeyPatch
):
    first = segments.start()
    segments.append(first, update(1), update(2))
    second = segments.start(number=1, after=first)
    segments.append(second, update(3), update(4))
    empty = segments.start(number=2, after=second)
    opened: list[str] = []
    real = HistoryReader._open

    def spy(self: HistoryReader, link: object) -> None:
        opened.append(link.path.name)  # type: ignore[attr-defined]
        real(self, link)  # type: ignore[arg-type]

    monkeypatch.setattr(HistoryReader, "_open", spy)
    assert sequences(read(3).poll()) == [4]
    assert opened == [second.name, empty.name]


def test_bytes_beyond_what_the_next_epoch_names_are_ignored(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1), update(2))
    valid_bytes = first.stat().st_size
    second = segments.start(2, after=first, valid_bytes=valid_bytes)
    segments.append(second, update(3, 30.0, 3.0))
    # A zombie of the first epoch goes on writing.
    segments.append(first, update(3, -1.0, 3.0), update(4, -1.0, 4.0))
    reader = read()
    assert [(r.sequence, r.values()[0]) for r in reader.poll()] == [(1, 0.5), (2, 1), (3, 30)]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_a_segment_that_nobody_continues_is_left_out(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    zombie = segments.start(1, 1, after=first)
    segments.append(zombie, update(2, -1.0, 2.0))
    segments.append(segments.start(2, after=first), update(2, 20.0, 2.0))
    reader = read()
    assert [(r.sequence, r.values()[0]) for r in reader.poll()] == [(1, 0.5), (2, 20)]
    assert reader.damaged == 0


def test_entries_that_were_cut_off_after_they_were_read_come_again(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    valid_bytes = first.stat().st_size
    segments.append(first, update(2, -1.0, 2.0), update(3, -1.0, 3.0))
    reader = read()
    assert sequences(reader.poll()) == [1, 2, 3]
    second = segments.start(2, after=first, valid_bytes=valid_bytes)
    segments.append(second, update(2, 20.0, 2.0))
    assert [(r.sequence, r.values()[0]) for r in reader.poll()] == [(2, 20)]


def test_an_entry_held_back_and_then_cut_off_is_never_returned(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    valid_bytes = first.stat().st_size
    segments.append(first, update(2, -1.0, 2.0))
    reader = read()
    assert sequences(reader.poll(up_to=1)) == [1]
    second = segments.start(2, after=first, valid_bytes=valid_bytes)
    segments.append(second, update(2, 20.0, 2.0))
    assert [(r.sequence, r.values()[0]) for r in reader.poll(up_to=2)] == [(2, 20)]


def test_a_reader_in_a_segment_that_stops_counting_moves_on(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    zombie = segments.start(1, 1, after=first)
    segments.append(zombie, update(2, -1.0, 2.0), update(3, -1.0, 3.0))
    reader = read()
    assert sequences(reader.poll()) == [1, 2, 3]
    segments.append(segments.start(2, after=first), update(2, 20.0, 2.0))
    assert [(r.sequence, r.values()[0]) for r in reader.poll()] == [(2, 20)]


def test_records_that_straddle_chunks_are_whole(
    read: Read, segments: Segments, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(history, "CHUNK_BYTES", 100)
    tags = tuple(f"tag/{i}" for i in range(100))
    path = segments.start(layouts=layout(0, tags))
    segments.append(path, *(update(i, *range(100)) for i in range(1, 20)))
    reader = read()
    records = reader.poll()
    assert sequences(records) == list(range(1, 20))
    assert records[-1].values().tolist() == list(range(100))
    assert reader.damaged == 0


def test_a_layout_behind_its_update_still_serves_it(read: Read, segments: Segments):
    path = segments.start(layouts=b"")
    segments.append(path, update(1), layout())
    assert read().poll()[0].tags == TAGS


def test_a_segment_that_is_just_being_made_is_not_there_yet(read: Read, segments: Segments):
    first = segments.start()
    segments.append(first, update(1))
    reader = read()
    assert sequences(reader.poll()) == [1]
    segments.append(first, update(2))
    second = segments.start(number=1, after=first)
    whole = second.read_bytes()
    for cut in (0, 9, HEADER_BYTES + 5):
        second.write_bytes(whole[:cut])
        assert sequences(reader.poll()) == ([] if cut else [2])
    second.write_bytes(whole + update(3))
    assert sequences(reader.poll()) == [3]
    assert (reader.damaged, reader.lost_entries) == (0, 0)


def test_other_files_in_the_directory_are_no_history(read: Read, segments: Segments):
    segments.append(segments.start(), update(1))
    (segments.directory / "wal-000001-000000").write_bytes(update(9))
    (segments.directory / "bus.json").write_bytes(b"{}")
    assert sequences(read().poll()) == [1]


def test_closing_twice_is_fine_and_a_with_statement_closes(segments: Segments):
    segments.append(segments.start(), update(1))
    with HistoryReader(segments.directory) as reader:
        assert sequences(reader.poll()) == [1]
    reader.close()


def test_a_header_record_is_what_the_scanner_takes_for_one(segments: Segments):
    assert scan(segments.start().read_bytes()).records[0].kind == KIND_SEGMENT_HEADER
