"""Folding that the review of the design asked for: clocks, many tags, many ranks, few bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from journal_feeder import opened
from sources_on_paper import PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.folding.entries import Entry, Seal
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_schema.codec import MAX_MESSAGE_BYTES, decode_head, decode_reply, encode_message
from unilab_schema.control import Epoch, Head, SourceStatus
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.requests import Snapshot
from unilab_schema.updates import Supplement, Update


def write(directory: Path, *entries: Entry) -> None:
    with opened(directory) as journal:
        _fold(journal, *entries)


def _fold(journal: Journal, *entries: Entry) -> None:
    for entry in entries:
        journal.append(entry)
        journal.publish(journal.state.handle(entry))
    journal.commit()


def read(directory: Path) -> list[HistoryRecord]:
    with HistoryReader(directory) as reader:
        records = reader.poll(100_000)
        assert (reader.damaged, reader.lost_entries) == (0, 0)
        return records


def clock_decisions() -> PaperRun:
    """A straggler, a supplement, a lost rank: everything that only a clock decided."""
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, t=10), one.iteration(1, {"a": 3.0}, t=11))
    paper.settle()
    paper.fold(zero.iteration(2, {"a": 2.0}, t=20))
    paper.settle()
    paper.settle(31_000)
    paper.fold(one.iteration(2, {"a": 4.0, "late": 5.0}, t=21))
    paper.settle()
    paper.settle(2_000)
    paper.lose(one)
    paper.fold(zero.iteration(3, {"a": 7.0}, t=30))
    paper.settle()
    return paper


@pytest.mark.parametrize("lives", [1, 2, 5])
def test_decisions_of_a_clock_are_folded_again_to_the_same_numbers(
    lives: int, tmp_path: Path
) -> None:
    paper = clock_decisions()
    entries = paper.entries
    for life in range(lives):
        write(tmp_path, *entries[life * len(entries) // lives : (life + 1) * len(entries) // lives])
    found = read(tmp_path)
    assert [(r.sequence, r.entry) for r in found] == [(p[0], p[1]) for p in paper.published]
    whys = [entry.why for entry in entries if isinstance(entry, Seal)]
    assert "straggler" in whys
    assert sum(isinstance(r.entry, Supplement) for r in found) == 1


def test_a_history_that_was_lost_is_made_again_from_the_wal_alone(tmp_path: Path) -> None:
    paper = clock_decisions()
    write(tmp_path, *paper.entries)
    before = [(r.sequence, r.entry) for r in read(tmp_path)]
    for path in tmp_path.glob("history-*"):
        path.unlink()
    with opened(tmp_path):
        pass
    assert [(r.sequence, r.entry) for r in read(tmp_path)] == before


def test_12345_tags_of_two_ranks_are_in_the_history_once(tmp_path: Path) -> None:
    paper, zero, one = two_learners()
    names = [f"family/member_{n}" for n in range(12_345)]
    for source, factor in ((zero, 1.0), (one, 3.0)):
        for start in range(0, len(names), 4096):
            part = {name: factor * (start + n) for n, name in enumerate(names[start:][:4096])}
            paper.fold(source.iteration(1, part, t=1, more=start + 4096 < len(names)))
    paper.settle()
    write(tmp_path, *paper.entries)
    values: dict[str, float] = {}
    for record in read(tmp_path):
        if isinstance(record.entry, Update | Supplement):
            assert not values.keys() & set(record.tags)
            values.update(zip(record.tags, record.values().tolist(), strict=True))
    assert values == {name: 2.0 * n for n, name in enumerate(names)}


def test_opposite_infinities_and_overflow_of_two_ranks_reach_the_reader(tmp_path: Path) -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": math.inf, "b": 1e308, "c": 1.0}))
    paper.fold(one.iteration(1, {"a": -math.inf, "b": 1e308, "c": 3.0}))
    paper.settle()
    write(tmp_path, *paper.entries)
    (record,) = [r for r in read(tmp_path) if isinstance(r.entry, Update)]
    values = dict(zip(record.tags, record.values().tolist(), strict=True))
    assert math.isnan(values["a"])
    assert values["b"] == pytest.approx(1e308)
    assert values["c"] == 2.0


def test_64_ranks_and_their_collectors_fit_into_one_announcement() -> None:
    drops = {f"reason {n}": 2**40 for n in range(8)}
    statuses = tuple(
        SourceStatus(
            SourceKey(rank, role), 2**22, "h" * 64, "silent", 1e5, 1e5, 2**40, 2**40, drops, -1e5
        )
        for rank in range(64)
        for role in ("learner", "collector")
    )
    head = Head(Epoch(b"j" * 16, 1), 1, 1, 1, RunInfo("sac"), "/" * 255, statuses, (), 1, 1)
    data = encode_message(head)
    assert len(data) < MAX_MESSAGE_BYTES / 8
    assert decode_head(data) == head


def test_64_ranks_newest_values_are_one_reply(tmp_path: Path) -> None:
    paper = PaperRun()
    sources: list[PaperSource] = [paper.join(rank, learners=64) for rank in range(64)]
    tags = [f"Rank/{n}" for n in range(60)]
    for source in sources:
        rank = source.identity.key.rank
        paper.fold(source.iteration(1, {f"{tag}/{rank}": float(rank) for tag in tags}, t=rank))
    paper.settle()
    with opened(tmp_path) as journal:
        _fold(journal, *paper.entries)
        reply = decode_reply(encode_message(Server(journal).snapshot(5)))
        assert len(encode_message(reply)) < MAX_MESSAGE_BYTES
        assert isinstance(reply, Snapshot)
    found = dict(zip(reply.tags, np.frombuffer(reply.values, "<f8").tolist(), strict=True))
    assert len(found) == 64 * 60
    assert {found[f"Rank/7/{rank}"] for rank in range(64)} == set(map(float, range(64)))
