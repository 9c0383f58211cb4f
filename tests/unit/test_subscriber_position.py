"""The pure part of a subscriber: heads and replies in, entries out."""

from __future__ import annotations

import struct

import pytest

from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Updates
from unilab_schema.updates import Update, UpdateLayout

EPOCH = Epoch(b"j" * 16, 1)
LAYOUT = UpdateLayout(0, ("a",))


def head(update: int, epoch: Epoch = EPOCH) -> Head:
    return Head(epoch, update, update, 1, RunInfo(), "/run", (), (), 0, 0)


def record(sequence: int, layout: int = 0) -> bytes:
    entry = Update(1, sequence, None, 0, 0, 0.0, 1, 1, layout, struct.pack("<d", sequence))
    return encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))


def reply(*sequences: int, last: int | None = None, records: bytes | None = None) -> Updates:
    data = b"".join(map(record, sequences)) if records is None else records
    return Updates(1, EPOCH, max(sequences, default=0) if last is None else last, (LAYOUT,), data)


def joined(update: int = 0) -> Position:
    position = Position(None, 10)
    position.heed(head(update))
    return position


@pytest.mark.parametrize(("update", "cursor"), [(0, 0), (10, 0), (11, 1), (500, 490)])
def test_joining_starts_at_the_recent_entries(update: int, cursor: int):
    assert joined(update).cursor == cursor


def test_a_given_cursor_is_kept_when_joining():
    position = Position(3, 10)
    assert not position.is_behind
    position.heed(head(500))
    assert position.cursor == 3
    assert position.is_behind


def test_entries_come_once_and_in_order():
    position = joined(5)
    assert [e.sequence for e in position.accept(reply(1, 2, 3))] == [1, 2, 3]
    assert [e.sequence for e in position.accept(reply(2, 3, 4, 5))] == [4, 5]
    assert not position.is_behind
    assert (position.lost_entries, position.damaged) == (0, 0)


def test_holes_are_counted():
    position = joined(9)
    assert [e.sequence for e in position.accept(reply(2, 5))] == [2, 5]
    assert position.lost_entries == 3
    assert position.accept(reply(last=9)) == []
    assert position.lost_entries == 7
    assert position.cursor == 9


def test_a_layout_that_is_told_again_stays_the_same_tuple():
    position = joined(9)

    def told(sequence: int, *tags: str) -> tuple[str, ...]:
        layout = UpdateLayout(0, tuple("".join(tag) for tag in tags))
        entry = Update(1, sequence, None, 0, 0, 0.0, 1, 1, 0, bytes(8 * len(tags)))
        data = encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))
        (found,) = position.accept(Updates(1, EPOCH, sequence, (layout,), data))
        return found.tags

    first = told(1, "a", "b")
    assert told(2, "a", "b") is first
    assert told(3, "a", "c") == ("a", "c")


def test_an_empty_reply_changes_nothing():
    position = joined(5)
    position.accept(reply(1, 2))
    assert position.accept(reply(last=2)) == []
    assert (position.cursor, position.lost_entries) == (2, 0)
    assert position.is_behind


def test_damage_in_a_reply_is_counted_and_later_entries_live():
    position = joined(9)
    data = record(1) + b"garbage" + record(2, layout=7) + record(3) + record(4)[:-1]
    assert [e.sequence for e in position.accept(reply(last=4, records=data))] == [1, 3]
    assert position.damaged == 3
    assert position.lost_entries == 2
    assert position.cursor == 4


def test_layouts_are_remembered_over_replies():
    position = joined(9)
    position.accept(reply(1))
    without = Updates(2, EPOCH, 2, (), record(2))
    assert position.accept(without)[0].tags == ("a",)


def test_a_head_of_a_replaced_aggregator_is_left_out():
    position = joined(5)
    assert position.heed(head(6, Epoch(b"j" * 16, 2)))
    assert not position.heed(head(9))
    assert position.head is not None
    assert position.head.update == 6


def test_a_new_epoch_that_knows_less_sets_the_cursor_back():
    position = joined(9)
    position.accept(reply(*range(1, 10)))
    position.heed(head(7, Epoch(b"j" * 16, 2)))
    assert position.cursor == 7


def test_an_older_head_of_the_same_epoch_does_not_set_it_back():
    position = joined(9)
    position.accept(reply(*range(1, 10)))
    position.heed(head(7))
    assert position.cursor == 9


def test_another_journal_joins_anew():
    position = joined(9)
    position.accept(reply(*range(1, 10)))
    assert position.heed(head(30, Epoch(b"k" * 16, 1)))
    assert position.cursor == 20
