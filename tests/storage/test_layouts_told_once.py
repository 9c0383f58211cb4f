"""A subscriber is told each layout once, also of thousands of tags, and never reads with another."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
from journal_feeder import Feeder, fold, opened
from sources_on_paper import MS

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.folding.entries import Entry, Seal
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.fetching import Fetching
from unilab_metrics.subscribe.joining import Joining
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_message, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.layout_marks import mark_of
from unilab_schema.requests import Fetch, Updates
from unilab_schema.updates import Update, UpdateLayout

MANY = {f"group_{n % 17}/{n:05}": 1.0 for n in range(3000)}
EPOCH = Epoch(b"j" * 16, 1)


def iteration(feeder: Feeder, k: int) -> list[Entry]:
    return [feeder.source.iteration(k, MANY, t=k), Seal(k, k * MS, k * MS)]


def head_of(journal: Journal) -> Head:
    update = journal.committed_update
    return Head(journal.epoch, update, update, 1, RunInfo(), "/r", (), (), 0, 0)


def test_thousands_of_tags_are_told_once_to_one_subscriber(tmp_path: Path) -> None:
    feeder, position, fetching = Feeder(), Position(0, None), Fetching()
    with opened(tmp_path) as journal:
        server = Server(journal)
        fold(journal, feeder.joined)
        sizes: list[int] = []
        before: list[int] = []
        shown: list[int] = []
        for k in range(1, 4):
            fold(journal, *iteration(feeder, k))
            journal.commit()
            position.heed(head_of(journal))
            fetch = fetching.due(position, float(k))
            assert fetch is not None
            fetching.sent(fetch.request, float(k))
            reply = server.updates(fetch)
            sizes.append(len(encode_message(reply)))
            before.append(
                len(encode_message(server.updates(msgspec.structs.replace(fetch, known=()))))
            )
            shown += [len(one.tags) for one in fetching.take(reply, position, float(k))]
    assert [one for one in shown if one] == [3000] * 3
    assert position.lost_entries == position.damaged == 0
    assert min(before) > 65_000
    assert sizes[0] == before[0]
    assert max(sizes[1:]) < 25_000


def test_who_joins_is_told_them_once(tmp_path: Path) -> None:
    feeder, position, joining = Feeder(), Position(None, None), Joining()
    with opened(tmp_path) as journal:
        server = Server(journal)
        fold(journal, feeder.joined)
        for k in range(1, 9):
            fold(journal, *feeder.iteration(k))
        journal.commit()
        position.heed(head_of(journal))
        told: list[int] = []
        while position.cursor is None:
            fetch = joining.due(position, 0.0)
            assert fetch is not None
            joining.sent(fetch.request, 0.0)
            reply = server.updates(fetch)
            told.append(len(reply.layouts))
            position.cursor = joining.take(reply, 0.01)
        fetch = Fetching().due(position, 1.0)
        assert fetch is not None
        told.append(len(server.updates(fetch).layouts))
    assert told[0] == 1
    assert not any(told[1:])
    assert len(told) > 2


def test_a_mark_stands_for_the_number_with_its_tags(tmp_path: Path) -> None:
    # Of 92 00 92 a1 61 a1 62.
    assert mark_of(0, ("a", "b")).hex() == "ced1e8106f64a482"
    feeder = Feeder()
    with opened(tmp_path) as journal:
        server = Server(journal)
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        (layout,) = server.updates(Fetch(1, 0)).layouts
        own = mark_of(layout.layout, layout.tags)
        others = mark_of(layout.layout + 1, layout.tags), mark_of(layout.layout, ("a", "c"))
        assert server.updates(Fetch(1, 0, known=(*others, own))).layouts == ()
        assert server.updates(Fetch(1, 0, known=others)).layouts == (layout,)
        assert server.updates(Fetch(1, 0, known=(b"x",) * 64 + (own,))).layouts == (layout,)


def update(sequence: int) -> bytes:
    entry = Update(1, sequence, None, 0, 0, 0.0, 1, 1, 0, struct.pack("<d", 1.0))
    return encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))


def test_a_late_reply_is_not_read_with_tags_that_came_after_its_question() -> None:
    position, fetching = Position(0, None), Fetching()
    position.heed(Head(EPOCH, 100, 100, 1, RunInfo(), "/r", (), (), 0, 0))

    def answer(number: int, sequence: int, *layouts: UpdateLayout) -> Updates:
        return Updates(number, EPOCH, sequence, layouts, update(sequence))

    fetching.due(position, 0.0)
    fetching.sent(1, 0.0)
    first = fetching.take(answer(1, 1, UpdateLayout(0, ("old",))), position, 0.1)
    assert [one.tags for one in first] == [("old",)]
    for number, now_s in ((2, 1.0), (3, 10.0)):
        assert fetching.due(position, now_s) is not None
        fetching.sent(number, now_s)
    later = fetching.take(answer(2, 2, UpdateLayout(0, ("new",))), position, 11.0)
    assert [one.tags for one in later] == [("new",)]
    assert fetching.take(answer(3, 3), position, 12.0) == []
    assert position.cursor == 2
    fetch = fetching.due(position, 13.0)
    assert fetch is not None
    assert fetch.known == (mark_of(0, ("new",)),)
