"""What is kept of a tag's course: nothing lost, nothing twice, never too much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chart_runs import TAG, bins_of, blocks_of, record, records_of, store_of
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.frames import Point, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, PointsUpdate, Supplement
from unilab_sidecar.charting import bins as chart_bins
from unilab_sidecar.charting.bins import Bins, Course, Field
from unilab_sidecar.charting.store import MAX_TAGS, ChartStore, HistoryPiece, Wanted

VALUES = st.lists(
    st.one_of(
        st.floats(-1e6, 1e6),
        st.floats(allow_nan=True, allow_infinity=True),
        st.just(0.0),
    ),
    min_size=1,
    max_size=400,
)


def totals(bins: Bins) -> tuple[float, ...]:
    fields = (Field.COUNT, Field.NANS, Field.INFINITIES, Field.NOT_POSITIVE)
    return tuple(float(bins[field].sum()) for field in fields)


def expected(values: list[float]) -> tuple[float, ...]:
    finite = [value for value in values if math.isfinite(value)]
    nans = sum(map(math.isnan, values))
    infinities = sum(map(math.isinf, values))
    return (len(finite), nans, infinities, sum(value <= 0 for value in finite))


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(8, 40), st.integers(1, 50))
def test_coarser_bins_keep_counts_and_extremes_and_stay_few(values, max_bins, at_once):
    course = Course(max_bins)
    table = bins_of(values)
    for first in range(0, len(values), at_once):
        course.extend(table[:, first : first + at_once])
    bins = course.bins()
    assert len(bins) <= max_bins
    assert totals(bins) == expected(values)
    finite = [value for value in values if math.isfinite(value)]
    has_values = bins[Field.COUNT] > 0
    if finite:
        assert bins[Field.MINIMUM].min() == min(finite)
        assert bins[Field.MAXIMUM].max() == max(finite)
    low, mean, high = (
        bins[field][has_values] for field in (Field.MINIMUM, Field.MEAN, Field.MAXIMUM)
    )
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert np.isfinite(mean).all()
    assert (bins[Field.ITERATION_FROM][1:] > bins[Field.ITERATION_TO][:-1]).all()
    assert (bins[Field.ITERATION_FROM][0], bins[Field.ITERATION_TO][-1]) == (1, len(values))


def test_means_are_weighed_by_the_values_behind_them():
    values = np.random.default_rng(3).normal(5, 2, 10_000)
    course = Course(64)
    course.extend(bins_of(values))
    bins = course.bins()
    weights = bins[Field.COUNT]
    assert weights.sum() == 10_000
    assert (bins[Field.MEAN] * weights).sum() / 10_000 == pytest.approx(values.mean(), rel=1e-12)


def test_adding_costs_the_same_however_long_the_run(monkeypatch: pytest.MonkeyPatch):
    joins: list[int] = []
    original = chart_bins.joined
    monkeypatch.setattr(
        chart_bins, "joined", lambda table, firsts: joins.append(1) or original(table, firsts)
    )
    course = Course(256)
    for first in range(0, 50_000, 100):
        course.extend(bins_of(np.ones(100), first=first + 1))
    # Each one frees a quarter of the room.
    assert len(joins) <= 50_000 / 64


@pytest.mark.parametrize("count", [1000, 10_000, 100_000])
def test_bins_are_no_coarser_than_they_must_be(count: int):
    course = Course(256)
    course.extend(bins_of(np.ones(count)))
    bins = course.bins()
    assert len(bins) > 256 / 3
    assert bins.updates.max() <= course.resolution <= 4 * count / 256


def test_attempts_are_not_mixed_while_there_is_room():
    course = Course(32)
    course.extend(bins_of(np.arange(300.0)))
    course.extend(bins_of(np.arange(1000.0, 1200.0), attempt=2, first=150))
    bins = course.bins()
    first = bins.where(bins[Field.ATTEMPT] == 1)
    assert (first[Field.MAXIMUM] < 1000).all()
    assert first[Field.COUNT].sum() == 300
    second = bins.where(bins[Field.ATTEMPT] == 2)
    assert second[Field.ITERATION_FROM][0] == 150


def test_thousands_of_attempts_take_no_more_room_and_lose_no_spike():
    course = Course(64)
    for attempt in range(1, 2000):
        course.extend(bins_of([999.0 if attempt == 700 else 1.0], attempt=attempt))
    bins = course.bins()
    assert len(bins) <= 64
    assert bins[Field.MAXIMUM].max() == 999
    assert bins[Field.COUNT].sum() == 1999


def test_a_late_value_joins_the_bin_where_it_belongs():
    course = Course()
    course.extend(bins_of(np.ones(10)))
    course.extend(bins_of([7.0], first=4))
    bins = course.bins()
    assert len(bins) == 10
    assert bins[Field.MAXIMUM].tolist() == [1, 1, 1, 7, 1, 1, 1, 1, 1, 1]
    assert bins[Field.COUNT][3] == 2
    assert (np.diff(bins[Field.ITERATION_FROM]) > 0).all()


def test_a_late_value_of_an_older_attempt_stays_there():
    course = Course()
    course.extend(bins_of(np.ones(5)))
    course.extend(bins_of(np.ones(5), attempt=2, first=3))
    course.extend(bins_of([7.0], attempt=1, first=4))
    bins = course.bins()
    assert bins[Field.MAXIMUM].tolist() == [1, 1, 1, 7, 1, 1, 1, 1, 1, 1]


def test_a_late_value_of_an_attempt_without_any_is_kept():
    course = Course()
    course.extend(bins_of(np.ones(5), attempt=2, first=3))
    course.extend(bins_of([7.0], attempt=1, first=4))
    assert course.bins()[Field.COUNT].sum() == 6
    assert course.bins()[Field.MAXIMUM].max() == 7


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4000), st.integers(0, 4000), st.integers(1, 3000), st.integers(0, 400))
def test_past_and_present_meet_without_gap_and_without_doubling(count, joined_at, step, again):
    joined_at = min(joined_at, count)
    values = np.sin(np.arange(count)).tolist()
    values[count // 2] = 1e6
    records = records_of(values)
    store = ChartStore()
    store.keep([TAG])
    past, present = records[:joined_at], records[joined_at:]
    # Live records that come before the history does are in its last piece.
    store.add_records(past[-50:])
    assert store.wanted == (Wanted(TAG, 0),)
    blocks = blocks_of(past)
    covered = blocks[-1].last if blocks else 0
    if blocks:
        store.add_piece(HistoryPiece((TAG,), 0, covered, blocks, newest=joined_at))
        # An answer that was asked for twice.
        store.add_piece(HistoryPiece((TAG,), 0, covered, blocks, newest=joined_at))
    rest = tuple(past[max(covered - again, 0) :])
    store.add_piece(HistoryPiece((TAG,), covered, joined_at, records=rest, complete=True))
    assert store.wanted == ()
    assert store.progress(TAG) == 1
    for first in range(0, len(present), step):
        store.add_records(records[max(joined_at + first - again, 0) : joined_at + first + step])
    bins = store.bins(TAG)
    assert bins[Field.COUNT].sum() == count
    assert bins[Field.MAXIMUM].max() == 1e6
    total = (bins[Field.MEAN] * bins[Field.COUNT]).sum()
    assert total == pytest.approx(math.fsum(values), rel=1e-9)
    assert bins.span("iteration") == (1, count)


def test_a_block_says_what_its_updates_said():
    values = np.random.default_rng(1).normal(0, 1, 1024)
    values[100] = -50.0
    values[1023] = math.nan
    store = ChartStore()
    store.keep([TAG])
    store.add_piece(HistoryPiece((TAG,), 0, 1024, blocks_of(records_of(values.tolist()))))
    bins = store.bins(TAG)
    assert len(bins) == 1
    assert bins[Field.MINIMUM][0] == -50
    assert bins[Field.COUNT][0] == 1023
    assert bins[Field.NANS][0] == 1
    assert bins[Field.STRANGE][0] == 0
    assert bins.span("env_steps") == (256, 256 * 1024)
    assert bins.span("time") == (0.1, 102.4)


def test_a_block_counts_what_is_no_number_also_in_its_middle():
    values = [1.0] * 1024
    values[300:310] = [math.inf] * 10
    store = ChartStore()
    store.keep([TAG])
    blocks = blocks_of(records_of(values))
    store.add_piece(HistoryPiece((TAG,), 0, 1024, blocks))
    assert store.bins(TAG).not_finite.tolist() == [10]
    assert store.bins(TAG)[Field.STRANGE].tolist() == [10]
    # Blocks of older versions do not say.
    older = tuple(structs.replace(block, not_finite=b"") for block in blocks)
    store.keep([])
    store.keep([TAG])
    store.add_piece(HistoryPiece((TAG,), 0, 1024, older))
    assert store.bins(TAG).not_finite.tolist() == [0]


def test_a_tag_that_is_chosen_later_is_found_in_the_same_layout():
    tags = ("a", "b")
    store = ChartStore()
    store.keep(["a"])
    store.add_piece(HistoryPiece(("a",), 0, 0, complete=True))
    store.add_records([record(1, tags, [1.0, 2.0])])
    store.keep(["b", "a"])
    store.add_piece(
        HistoryPiece(("b",), 0, 1, records=(record(1, tags, [1.0, 2.0]),), complete=True)
    )
    store.add_records([record(2, tags, [3.0, 4.0])])
    assert store.bins("a")[Field.LATEST].tolist() == [1, 3]
    assert store.bins("b")[Field.LATEST].tolist() == [2, 4]


def test_progress_says_how_much_of_the_history_is_here():
    records = records_of(np.ones(4096).tolist())
    store = ChartStore()
    store.keep([TAG])
    assert store.progress(TAG) == 0
    store.add_piece(HistoryPiece((TAG,), 0, 1024, blocks_of(records[:1024]), newest=4096))
    assert store.progress(TAG) == 0.25
    assert store.wanted == (Wanted(TAG, 1024),)


def test_only_tags_that_are_asked_for_are_kept():
    store = store_of({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    store.keep(["b", *(f"more{number}" for number in range(40))])
    assert len(store.tags) == MAX_TAGS
    assert store.tags[0] == "b"
    assert len(store.bins("b")) == 2
    assert len(store.bins("a")) == 0
    # Asked for again it comes again from the beginning.
    store.keep(["a"])
    assert store.wanted == (Wanted("a", 0),)


def test_a_layout_that_changes_is_followed():
    store = ChartStore()
    store.keep([TAG])
    store.add_piece(HistoryPiece((TAG,), 0, 0, complete=True))
    store.add_records(
        [
            record(1, (TAG, "x"), [1.0, 9.0]),
            record(2, ("x",), [9.0]),
            record(3, ("x", TAG), [9.0, 3.0]),
        ]
    )
    assert store.bins(TAG)[Field.LATEST].tolist() == [1, 3]
    assert store.bins(TAG)[Field.ITERATION_TO].tolist() == [1, 3]


def test_supplements_and_points_are_part_of_the_course():
    store = ChartStore()
    store.keep([TAG, "eval/return"])
    store.add_piece(HistoryPiece(store.tags, 0, 0, complete=True))
    supplement = Supplement(1, 2, None, 0, 0, 0.2, 1, np.array([5.0]).tobytes())
    points = PointsFrame((Point("eval/return", 8.0, 40, 3_000_000_000), Point("other", 1.0, 1, 1)))
    entry = PointsUpdate(1, SourceKey(0, "eval"), points)
    store.add_records(
        [
            HistoryRecord(1, AttemptOpened(1, 1_000_000_000, RunInfo(), 10.0), ()),
            *records_of([1.0, 2.0, 3.0], "x", first=2),
            HistoryRecord(5, supplement, (TAG,)),
            HistoryRecord(6, entry, ()),
        ]
    )
    assert store.bins(TAG)[Field.LATEST].tolist() == [5]
    assert store.bins(TAG).span("env_steps") is None
    assert store.bins("eval/return").span("iteration") == (40, 40)
    assert store.bins("eval/return").span("time") == (12, 12)


def test_waiting_values_do_not_pile_up_while_nobody_looks():
    store = store_of({TAG: [0.0]}, max_bins=64)
    for number in range(2, 3000):
        store.add_records(records_of([float(number)], first=number))
    track = store._tracks[TAG]
    assert len(track.waiting) < 100
    assert track.course.bins()[Field.COUNT].sum() > 2800
