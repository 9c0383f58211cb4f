"""A chart of a whole run whose past came in blocks: as fine all over as if it had been followed."""

from __future__ import annotations

import numpy as np
import pytest
from asked_charts import FileSource, ask_detail, chart_of, long_run
from chart_runs import record, records_of
from long_history import TAGS

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.charting import detail as chart_detail
from unilab_sidecar.charting.bins import Bins, Field
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState, Zoom
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding import past_questions
from unilab_sidecar.views.charts import view, window_of

COUNT = 3 * 1024 + 100
TAG = "Loss/critic"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FileSource:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    return long_run(run_dir, COUNT, lambda k: 50.0 if k % 100 == 0 else np.sin(k / 50))


@pytest.fixture
def joined_late(source: FileSource, monkeypatch: pytest.MonkeyPatch) -> ChartKeeping:
    """With the history in brief, as of a longer run."""
    monkeypatch.setattr(past_questions, "_SHORT", 0)
    return chart_of(TAG, source)


def window(keeping: ChartKeeping, *, zoom: Zoom | None = None, known: int = 6) -> Window:
    found = window_of(ChartData(keeping.store, TAGS, live=True), ChartState((TAG,), zoom=zoom))
    assert found is not None
    return found._replace(known=known)


def tell(keeping: ChartKeeping, source: FileSource, shown: Window) -> int:
    """In how many steps."""
    return len(list(ask_detail(keeping, source, shown)))


def widest(bins: Bins) -> float:
    return float((bins[Field.ITERATION_TO] - bins[Field.ITERATION_FROM]).max()) + 1


def heading(keeping: ChartKeeping) -> str:
    data = ChartData(keeping.store, TAGS, live=True, finer=keeping.progress)
    return plain(view(data, ChartState((TAG,)), 100, 30).lines[0])


def test_the_blocks_of_a_run_joined_late_become_its_updates(
    joined_late: ChartKeeping, source: FileSource
) -> None:
    before = joined_late.store.bins(TAG)
    assert widest(before) == 1024
    assert tell(joined_late, source, window(joined_late)) == 1
    bins = joined_late.store.bins(TAG)
    assert widest(bins) == 1
    assert bins.updates.sum() == before.updates.sum() == COUNT
    assert bins[Field.ITERATION_FROM].tolist() == list(range(1, COUNT + 1))


def test_what_is_on_its_way_is_said(joined_late: ChartKeeping, source: FileSource) -> None:
    assert "loading" not in heading(joined_late)
    question = joined_late.detail_question(window(joined_late))
    assert question is not None
    assert "loading 0 %" in heading(joined_late)
    joined_late.detail_answer(question, NoAnswer("not now", may_come=True))
    assert "loading" not in heading(joined_late)
    piece = question.put(source)
    assert isinstance(piece, HistoryPiece)
    joined_late.detail_answer(question, piece)
    assert "loading" not in heading(joined_late)
    assert "whole run" in heading(joined_late)


def test_live_updates_go_on_behind_it_without_another_question(
    joined_late: ChartKeeping, source: FileSource
) -> None:
    tell(joined_late, source, window(joined_late))
    first = (source.cursor or 0) + 1
    for n in range(200):
        fresh = record(first + n, TAGS, [0.5] * len(TAGS), iteration=COUNT + 1 + n)
        joined_late.add([fresh], is_paused=False)
    assert joined_late.detail_question(window(joined_late)) is None
    bins = joined_late.store.bins(TAG)
    assert bins[Field.ITERATION_FROM].tolist() == list(range(1, COUNT + 201))


def test_live_updates_meanwhile_do_not_begin_it_anew(joined_late: ChartKeeping) -> None:
    assert joined_late.detail_question(window(joined_late)) is not None
    first = joined_late._seen + 1
    for n in range(20):
        fresh = record(first + n, TAGS, [0.5] * len(TAGS), iteration=COUNT + 1 + n)
        joined_late.add([fresh], is_paused=False)
        assert joined_late.detail_question(window(joined_late)) is None
    assert joined_late.is_loading


def test_a_paused_picture_gets_no_further_by_it(
    joined_late: ChartKeeping, source: FileSource
) -> None:
    first, drawn = joined_late._seen + 1, joined_late._seen
    for n in range(20):
        fresh = record(first + n, TAGS, [0.5] * len(TAGS), iteration=COUNT + 1 + n)
        joined_late.add([fresh], is_paused=True)
    question = joined_late.detail_question(window(joined_late))
    assert question is not None
    assert question.through == drawn
    piece = question.put(source)
    assert isinstance(piece, HistoryPiece)
    joined_late.detail_answer(question, piece)
    assert joined_late.detail_question(window(joined_late)) is None
    assert joined_late.store.bins(TAG)[Field.ITERATION_TO].tolist() == list(range(1, COUNT + 1))
    joined_late.add((), is_paused=False)
    assert joined_late.store.bins(TAG)[Field.ITERATION_TO].tolist() == list(range(1, COUNT + 21))
    # Live again, it is asked for once more, to go on.
    assert joined_late.detail_question(window(joined_late)) is not None


def test_many_fine_bins_at_the_end_do_not_hide_the_blocks(joined_late: ChartKeeping) -> None:
    first = joined_late._seen + 1
    fresh = [
        record(first + n, TAGS, [0.5] * len(TAGS), iteration=COUNT + 1 + n) for n in range(2000)
    ]
    joined_late.add(fresh, is_paused=False)
    assert joined_late.detail_question(window(joined_late)) is not None


def test_a_zoom_leaves_nothing_in_the_picture_of_all(
    joined_late: ChartKeeping, source: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than is read of a whole run.
    monkeypatch.setattr(chart_detail, "MOST_OF_ALL", 1000)
    before = joined_late.store.bins(TAG).table.tolist()
    near = window(joined_late, zoom=Zoom(200.0, 1500.0))
    tell(joined_late, source, near)
    assert len(joined_late.store.bins(TAG)) > len(before[0])
    assert joined_late.detail_question(window(joined_late)) is None
    assert joined_late.store.bins(TAG).table.tolist() == before
    assert not joined_late.is_loading
    # And is there at once when that is looked at again.
    assert joined_late.detail_question(near) is None
    assert len(joined_late.store.bins(TAG)) > len(before[0])


def test_a_zoom_meanwhile_puts_it_off(joined_late: ChartKeeping, source: FileSource) -> None:
    first = joined_late.detail_question(window(joined_late))
    assert first is not None
    tell(joined_late, source, window(joined_late, zoom=Zoom(200.0, 1500.0)))
    assert not joined_late.is_loading
    again = joined_late.detail_question(window(joined_late))
    assert again is not None
    assert again is not first


def test_of_a_run_with_very_many_tags_the_blocks_stay(
    joined_late: ChartKeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chart_detail, "LEAST_ENTRIES", 1000)
    assert joined_late.detail_question(window(joined_late, known=12_345)) is None
    assert joined_late.detail_question(window(joined_late, known=100)) is not None


def test_a_run_that_was_followed_asks_nothing() -> None:
    keeping = ChartKeeping(lambda _tags: (TAG,))
    keeping.add(records_of([1.0] * 6000), is_paused=False)
    assert keeping.question() is None
    shown = window(keeping)
    assert widest(keeping.store.bins(TAG)) > 1
    assert keeping.detail_question(shown) is None
