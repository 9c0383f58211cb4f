"""The past of a run is the same, asked of its live aggregator or read from its files, and asking for
it does not hold the live updates up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from real_runs import start, until

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.requests import Blocks
from unilab_schema.updates import Update
from unilab_sidecar.charting.bins import Field
from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.feeding.past_questions import CourseQuestion, DetailQuestion

TRAINING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="ppo", run_dir=run_dir) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration), "Loss/surrogate": 1.0}, iteration=iteration)
        iteration += 1
        time.sleep(0.001 if iteration < 3000 else 0.02)
"""

PATIENCE_S = 40


def asked(subscriber: Subscriber, tags: tuple[str, ...], after: int) -> Blocks:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        reply = subscriber.bins(tags, after)
        assert not isinstance(reply, NoAnswer), reply
        if reply is not None:
            return reply
        subscriber.poll(50)
    raise AssertionError("no answer")


def stretch(subscriber: Subscriber, after: int, limit: int, tags: tuple[str, ...] = ()) -> Stretch:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        reply = subscriber.stretch(after, limit, tags)
        assert not isinstance(reply, NoAnswer), reply
        if reply is not None:
            return reply
        subscriber.poll(50)
    raise AssertionError("no answer")


def detailed(subscriber: Subscriber, question: DetailQuestion | None) -> list[HistoryRecord]:
    found: list[HistoryRecord] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while question is not None:
        assert time.monotonic() < deadline_s
        piece = question.put(subscriber)
        assert not isinstance(piece, NoAnswer), piece
        if piece is not None:
            found += piece.records
            question = question.following(piece)
        subscriber.poll(20)
    return found


@pytest.mark.slow
def test_the_past_is_the_same_live_and_from_files(tmp_path: Path) -> None:
    run_dir, stop = tmp_path / "run", tmp_path / "stop"
    training = start(TRAINING, str(run_dir), str(stop))
    try:
        until((bus_directory(run_dir) / "bus.json").exists, 60)
        tags = ("Loss/value",)
        with Subscriber.attach(run_dir) as live:
            until(lambda: bool(live.poll(50)) and live.newest() > 2500, 60)
            found = asked(live, tags, 0)
            # The run goes on, and there may be a third block by now.
            count = len(found.blocks)
            assert count >= 2
            assert [block.first for block in found.blocks] == [1 + 1024 * n for n in range(count)]
            assert (found.first, found.last) == (1, 1024 * count)
            entries = [stretch(live, after, 300) for after in (0, 777, 2100)]
            parts = [stretch(live, after, 100, tags) for after in (0, 777, 2100)]
            detail = detailed(live, DetailQuestion(tags, 1000, 1500))
            store = ChartStore()
            store.keep(tags)
            question: CourseQuestion | None = CourseQuestion(tags)
            longest_s = 0.0
            deadline_s = time.monotonic() + PATIENCE_S
            while question is not None:
                assert time.monotonic() < deadline_s
                piece = question.put(live)
                assert not isinstance(piece, NoAnswer), piece
                if piece is not None:
                    store.add_piece(piece)
                    question = question.following(piece)
                began_s = time.monotonic()
                fresh = live.poll(20)
                longest_s = max(longest_s, time.monotonic() - began_s)
                store.add_records(fresh)
            for _ in range(5):
                store.add_records(live.poll(100))
            cursor = live.cursor or 0
            assert longest_s < 2
    finally:
        stop.touch()
        training.communicate(timeout=60)
    past = PastFiles(bus_directory(run_dir))
    offline = past.bins(tags, 0)
    assert offline.blocks[: len(found.blocks)] == found.blocks
    for after, told in zip((0, 777, 2100), entries, strict=True):
        assert len(told.records) > 100
        assert _same(past.stretch(after, len(told.records)).records, told.records)
    for after, told in zip((0, 777, 2100), parts, strict=True):
        # How far an answer goes is a matter of time too.
        count = len(told.records)
        assert count
        assert _same(past.stretch(after, count, tags).records, told.records)
        assert {r.tags for r in told.records if r.tags} == {tags}
    assert [r.sequence for r in detail if r.sequence <= 1500] == list(range(1001, 1501))
    bins = store.bins("Loss/value")
    everything: list[HistoryRecord] = []
    while len(everything) < cursor and (more := past.stretch(len(everything), 1000).records):
        everything += more
    values = [float(r.values()[r.tags.index("Loss/value")]) for r in everything
              if isinstance(r.entry, Update) and r.sequence <= cursor]  # fmt: skip
    assert bins.table[Field.COUNT].sum() == len(values)
    span = bins.span("iteration")
    assert span is not None
    assert (span.low, span.high) == (0, values[-1])


def _same(left: tuple[HistoryRecord, ...], right: tuple[HistoryRecord, ...]) -> bool:
    return [(r.sequence, r.tags, r.entry) for r in left] == [
        (r.sequence, r.tags, r.entry) for r in right
    ]
