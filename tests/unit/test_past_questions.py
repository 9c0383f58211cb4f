"""How the past of a run is asked for: every update once, whatever blocks are missing, whenever the
training began again, and a moment with its whole window."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from chart_runs import TAG, blocks_of, record

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.past_files import Stretch
from unilab_schema.control import Epoch
from unilab_schema.frames import EventFrame
from unilab_schema.requests import Blocks
from unilab_schema.updates import BLOCK_ENTRIES, BinBlock, EventUpdate, Update
from unilab_sidecar.charting.bins import Field
from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.feeding import past_questions
from unilab_sidecar.feeding.moment import Moment, is_enough
from unilab_sidecar.feeding.past_questions import CourseQuestion, MomentQuestion


class OnPaper:
    """A run's past; ``missing``: blocks that are not there, ``silent``: polls without an answer."""

    def __init__(
        self, records: Sequence[HistoryRecord], *, missing: Sequence[int] = (), most: int = 700
    ) -> None:
        self.records = records
        updates = [one for one in records if isinstance(one.entry, Update)]
        self.blocks = [b for b in blocks_of(updates) if b.first not in missing]
        self.cursor: int | None = len(records)
        self.most = most
        self.largest = 0

    def newest(self) -> int:
        return len(self.records)

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        found: list[BinBlock] = []
        for block in self.blocks:
            if block.first > after and (not found or block.first == found[-1].last + 1):
                found.append(block)
            if len(found) == 3:
                break
        first = found[0].first if found else after + 1
        last = found[-1].last if found else after
        is_all = not found or found[-1] is self.blocks[-1]
        return Blocks(0, Epoch(b"", 0), tuple(found), is_all, first, last)

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        del tags, kinds
        told = tuple(self.records[after : after + min(limit, self.most)])
        self.largest = max(self.largest, len(told))
        return Stretch(told, told[-1].sequence if told else after)


def run_of(count: int, restarts: Sequence[int] = ()) -> list[HistoryRecord]:
    attempt, iteration = 1, 0
    made: list[HistoryRecord] = []
    for sequence in range(1, count + 1):
        iteration += 1
        if sequence in restarts:
            attempt, iteration = attempt + 1, iteration // 2
        made.append(
            record(sequence, (TAG,), [float(sequence)], iteration=iteration, attempt=attempt)
        )
    return made


def loaded(source: OnPaper) -> tuple[ChartStore, int]:
    store = ChartStore(max_bins=100_000)
    store.keep([TAG])
    question: CourseQuestion | None = CourseQuestion((TAG,))
    steps = 0
    while question is not None:
        piece = question.put(source)
        assert piece is not None
        assert not isinstance(piece, NoAnswer)
        assert piece.after == question.after
        store.add_piece(piece)
        question = question.following(piece)
        steps += 1
        assert steps < 1000
    assert not store.wanted
    return store, steps


@pytest.mark.parametrize(
    ("missing", "restarts"),
    [((), ()), ((1,), ()), ((2049,), ()), ((1025, 3073), (5000,)), ((), (1500, 1600, 9000))],
)
def test_every_update_is_told_once(
    missing: tuple[int, ...], restarts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_questions, "_SHORT", 0)
    count = 10 * BLOCK_ENTRIES + 300
    source = OnPaper(run_of(count, restarts), missing=missing)
    table = loaded(source)[0].bins(TAG).table
    assert table[Field.COUNT].sum() == count
    assert float((table[Field.MEAN] * table[Field.COUNT]).sum()) == count * (count + 1) / 2
    # No bin reaches from one attempt into another one.
    assert set(table[Field.ATTEMPT]) == set(range(1, len(restarts) + 2))
    for attempt in range(1, len(restarts) + 2):
        ends = table[Field.ITERATION_TO][table[Field.ATTEMPT] == attempt]
        assert (np.diff(ends) > 0).all()


def test_a_short_run_is_drawn_out_of_its_single_entries() -> None:
    store, _steps = loaded(OnPaper(run_of(3000)))
    assert len(store.bins(TAG)) == 3000


def test_a_course_begins_now_where_nobody_tells_it() -> None:
    source = OnPaper(run_of(10))
    source.stretch = lambda after, limit, tags=(): NoAnswer("gone")  # type: ignore[method-assign]
    assert CourseQuestion((TAG,)).put(source) == NoAnswer("gone")


def moment(source: OnPaper, at: int) -> Moment:
    question = MomentQuestion(at)
    for _ in range(200):
        reply = question.put(source)
        if isinstance(reply, Moment):
            return reply
        assert isinstance(reply, MomentQuestion)
        question = reply
    raise AssertionError("no end")


@pytest.mark.parametrize("before", [1, 3, 900])
def test_before_the_first_iteration_the_moment_is_that_of_the_first(before: int) -> None:
    records = run_of(1000)
    event = EventUpdate(1, None, EventFrame("status", "warm-up", 0, 0))
    records[:before] = [HistoryRecord(n, event, ()) for n in range(1, before + 1)]
    found = moment(OnPaper(records, most=200), 1)
    assert found.records[-1].sequence == found.at == before + 1
    assert [one.sequence for one in found.records] == list(range(1, before + 2))


def test_a_run_without_any_iteration_has_its_newest_moment() -> None:
    event = EventUpdate(1, None, EventFrame("status", "warm-up", 0, 0))
    assert moment(OnPaper([HistoryRecord(n, event, ()) for n in (1, 2, 3)]), 1).at == 3


@pytest.mark.parametrize("per_s", [1, 10, 1000])
def test_a_moment_has_its_whole_window_however_fast_the_run_is(per_s: int) -> None:
    records = [_sealed(one, per_s) for one in run_of(6000)]
    source = OnPaper(records)
    found = moment(source, 5900)
    assert found.records[-1].sequence == 5900
    assert [r.sequence for r in found.records] == list(range(found.records[0].sequence, 5901))
    assert is_enough(found.records) or found.records[0].sequence == 1
    begin = found.records[0].sequence
    if begin > 2 * BLOCK_ENTRIES:
        assert found.blocks[-1].last < begin
        assert begin - found.blocks[-1].last <= BLOCK_ENTRIES + 1
    assert found.newest == 6000


def _sealed(one: HistoryRecord, per_s: int) -> HistoryRecord:
    at_ns = one.sequence * 10**9 // per_s
    return one._replace(entry=msgspec.structs.replace(one.entry, sealed_mono_ns=at_ns))


def test_a_moment_beyond_the_ends_is_the_nearest_one() -> None:
    source = OnPaper(run_of(50))
    assert moment(source, 900).at == 50
    first = moment(source, -3)
    assert (first.at, len(first.records)) == (1, 1)
