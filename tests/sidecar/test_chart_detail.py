"""A window of a long history: each of its points, and no more than it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from asked_charts import FileSource, ask_detail, chart_of, long_run
from chart_runs import record
from long_history import TAGS

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_sidecar.charting import detail as chart_detail
from unilab_sidecar.charting.bins import Bins, Field, Span
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState, Zoom, press
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.past_questions import DetailQuestion
from unilab_sidecar.views.charts import context, view, window_of

COUNT = 40 * 1024
TAG = "Loss/critic"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FileSource:
    run_dir = tmp_path_factory.mktemp("detail") / "run"
    # One value among forty thousand.
    return long_run(run_dir, COUNT, lambda k: 1000.0 if k == 20_000 else np.sin(k / 50))


@pytest.fixture
def keeping(source: FileSource) -> ChartKeeping:
    return chart_of(TAG, source)


def at(low: float, high: float, known: int = 6) -> Window:
    return Window((TAG,), "iteration", Span(low, high), known)


def inside(bins: Bins, low: float, high: float) -> Bins:
    return bins.where((bins[Field.ITERATION_TO] >= low) & (bins[Field.ITERATION_FROM] <= high))


def test_each_point_of_a_window_is_there(keeping: ChartKeeping, source: FileSource) -> None:
    before = keeping.store.bins(TAG)
    assert len(inside(before, 19_900, 20_100)) < 20
    pieces = list(ask_detail(keeping, source, at(19_900, 20_100)))
    assert sum(len(piece.records) for piece in pieces) < 4096
    bins = keeping.store.bins(TAG)
    shown = inside(bins, 19_900, 20_100)
    assert shown[Field.ITERATION_FROM].tolist() == list(range(19_900, 20_101))
    assert shown[Field.MAXIMUM].tolist().index(1000.0) == 100
    assert (shown[Field.MAXIMUM] == shown[Field.MINIMUM]).all()
    # The rest is as it was, and nothing is told twice.
    assert bins.span("iteration") == before.span("iteration") == (1, COUNT)
    order = bins[Field.ITERATION_FROM]
    assert (np.diff(order) >= 0).all()
    assert (bins[Field.ITERATION_TO][:-1] <= order[1:]).all()


def test_a_step_to_the_side_asks_nothing_and_a_leap_does(
    keeping: ChartKeeping, source: FileSource
) -> None:
    list(ask_detail(keeping, source, at(19_900, 20_100)))
    assert keeping.detail_question(at(19_950, 20_150)) is None
    assert keeping.detail_question(at(5_000, 5_200)) is not None
    # What is here stays until the other is.
    assert len(inside(keeping.store.bins(TAG), 19_900, 20_100)) == 201


def test_a_window_with_too_much_in_it_is_drawn_from_blocks(keeping: ChartKeeping) -> None:
    assert keeping.detail_question(at(1, chart_detail.MOST_ENTRIES + 2000)) is None
    # Of very many tags far fewer entries are as much.
    assert keeping.detail_question(at(10_000, 16_000, known=12_345)) is None
    question = keeping.detail_question(at(10_000, 12_000, known=12_345))
    assert question is not None
    assert question.through - question.after <= chart_detail.LEAST_ENTRIES


def test_the_newest_window_goes_on_with_what_comes(
    keeping: ChartKeeping, source: FileSource
) -> None:
    window = at(COUNT - 200, COUNT)
    list(ask_detail(keeping, source, window))
    keeping.add(
        [record(COUNT + n, TAGS, [0.5] * len(TAGS), iteration=COUNT + n - 1) for n in range(2, 52)],
        is_paused=False,
    )
    shown = inside(keeping.store.bins(TAG), COUNT - 200, COUNT + 100)
    assert shown[Field.ITERATION_FROM].tolist() == list(range(COUNT - 200, COUNT + 51))
    assert keeping.detail_question(at(COUNT - 150, COUNT + 50)) is None


def test_nobody_to_tell_it_leaves_the_blocks(keeping: ChartKeeping) -> None:
    before = keeping.store.bins(TAG)
    window = at(19_900, 20_100)
    question = keeping.detail_question(window)
    assert question is not None
    keeping.detail_answer(question, NoAnswer("gone"))
    assert (keeping.store.bins(TAG).table == before.table).all()
    assert keeping.detail_question(window) is None
    assert not keeping.is_loading


def test_an_answer_to_an_earlier_window_is_passed_over(
    keeping: ChartKeeping, source: FileSource
) -> None:
    old = keeping.detail_question(at(19_900, 20_100))
    assert old is not None
    new = keeping.detail_question(at(5_000, 5_200))
    assert new is not None
    piece = old.put(source)
    assert isinstance(piece, HistoryPiece)
    keeping.detail_answer(old, piece)
    assert keeping.is_loading
    assert len(inside(keeping.store.bins(TAG), 19_900, 20_100)) < 20


def test_the_cursor_tells_one_update_after_zooming(
    keeping: ChartKeeping, source: FileSource
) -> None:
    data = ChartData(keeping.store, TAGS)
    state = ChartState((TAG,), cursor=20_000.0)
    for _ in range(9):
        state = press(state, "plus", context(data, state, 120, 30))
    assert isinstance(state.zoom, Zoom)
    window = window_of(data, state)
    assert window is not None
    assert not window.is_whole
    list(ask_detail(keeping, source, window))
    screen = view(data, replace(state, cursor=20_000.0), 120, 30)
    words = [plain(one).split() for one in screen.lines]
    assert any(one[-1:] == ["1000"] for one in words)
    assert not any("…" in one for one in words)


def test_a_hole_ends_a_question() -> None:
    class Nothing(FileSource):
        def __init__(self) -> None:
            self.cursor = 500
            self.stretch = PastFiles(Path("nowhere")).stretch

    piece = DetailQuestion((TAG,), 100, 200).put(Nothing())
    assert isinstance(piece, HistoryPiece)
    assert piece.complete
