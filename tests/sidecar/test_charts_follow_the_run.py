"""Charts follow the run itself, and do not call whole what is not: beside a longer earlier run, after
a restart that went back, while the history is on its way and where a part of it is lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from chart_runs import TAG, record, records_of, store_of

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.charting.bins import Field, Span
from unilab_sidecar.charting.columns import columns_of
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.legend import values_of
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState, Zoom, press
from unilab_sidecar.charting.store import ChartStore, HistoryPiece
from unilab_sidecar.charting.value_range import value_range
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.views.charts import context, view, window_of

NUMBERS = [float(number) for number in range(1, 401)]


def screen(data: ChartData, state: ChartState) -> str:
    return "\n".join(plain(one) for one in view(data, state, 100, 24).lines)


def pressed(data: ChartData, state: ChartState, keys: Sequence[str]) -> ChartState:
    for key in keys:
        state = press(state, key, context(data, state, 100, 24))
    return state


BESIDE = ChartData(
    store_of({TAG: NUMBERS[:100]}), (TAG,), store_of({TAG: NUMBERS}), "1 of 1: longer",
    live=True, earlier=1,
)  # fmt: skip
REWOUND = ChartData(store_of({TAG: NUMBERS}, attempts=[301]), (TAG,), live=True)
"""After 300 updates it began again at iteration 151, of which 100 have come."""


@pytest.mark.parametrize(
    ("data", "at", "value"), [(BESIDE, 100, 100), (REWOUND, 249, 400)], ids=["beside", "rewound"]
)
def test_a_window_that_follows_the_newest_shows_the_newest_update(
    data: ChartData, at: int, value: int
) -> None:
    state = pressed(data, ChartState((TAG,), earlier=0), "++++")
    assert state.zoom is not None
    assert state.zoom.high is None
    text = screen(data, state)
    assert f" to {at} · zoom " in text
    assert "× · follows the newest" in text
    assert f"now {value} " in text
    window = window_of(data, state)
    assert window is not None
    assert window.span.low < at <= window.span.high
    assert pressed(data, state, ["left"]).cursor == at
    assert pressed(data, ChartState((TAG,), earlier=0), ["left"]).cursor == at
    # Beyond it there is more to look at, and the way back goes by the newest.
    beyond = pressed(data, state, ["pagedown"] * 40)
    assert beyond.zoom is not None
    assert beyond.zoom.high == context(data, beyond, 100, 24).whole[1]  # type: ignore[index]
    assert "follows" not in screen(data, beyond)
    back = pressed(data, ChartState((TAG,), zoom=Zoom(24.0, at - 5.0), earlier=0), ["pagedown"])
    assert back.zoom == Zoom(24.0, None)


@pytest.mark.parametrize("live", [True, False])
def test_a_window_that_follows_the_newest_stands_still_while_a_cursor_is_in_it(live: bool) -> None:
    data = ChartData(store_of({TAG: NUMBERS[:300]}), (TAG,), live=live)
    later = data._replace(store=store_of({TAG: NUMBERS}))
    for keys in (["+"] * 6 + ["left"], ["left"] + ["+"] * 6, ["+"] * 6 + ["left", "x", "x", "x"]):
        state = pressed(data, ChartState((TAG,)), keys)
        window = window_of(later, state)
        assert window == window_of(data, state)
        assert window is not None
        assert state.cursor is not None
        assert window.span.low <= state.cursor <= window.span.high
        assert "held by the cursor" in screen(later, state)
        state = pressed(later, state, ["escape"])
        assert "follows the newest" in screen(later, state)
        assert "now 400 " in screen(later, state)


def test_a_window_wider_than_what_the_run_has_begins_where_it_begins() -> None:
    data = BESIDE._replace(live=False)
    state = pressed(data, ChartState((TAG,), earlier=0), "+")
    span = window_of(data, state)
    assert span is not None
    assert span.span == Span(1, 200.5)
    assert "follows the newest" in screen(data, state)


def keeping() -> ChartKeeping:
    made = ChartKeeping(lambda _tags: ())
    made.choose((TAG,))
    made.add(records_of(NUMBERS[:10]), is_paused=False)
    question = made.question()
    assert question is not None
    made.answer(
        question, HistoryPiece((TAG,), 0, 10, (), tuple(records_of(NUMBERS[:10])), 10, True)
    )
    return made


def header(store: ChartStore, zoom: Zoom | None = None) -> str:
    return screen(ChartData(store, (TAG,), live=True), ChartState((TAG,), zoom=zoom)).partition(
        "\n"
    )[0]


def test_a_run_is_whole_only_while_all_of_it_is_here() -> None:
    kept = keeping()
    assert header(kept.store).startswith("iteration 1 to 10 · whole run")
    # A hole that is not told of at the moment, then of which nobody will tell.
    kept.add([record(61 + n, (TAG,), [5.0]) for n in range(10)], is_paused=False)
    question = kept.question()
    assert question is not None
    for reply in (None, NoAnswer("not yet", may_come=True)):
        if reply is not None:
            kept.answer(question, reply)
        assert "whole run" not in header(kept.store)
        assert "loading" in header(kept.store)
    kept.answer(question, NoAnswer("never"))
    kept.add([record(71 + n, (TAG,), [5.0]) for n in range(10)], is_paused=False)
    for zoom in (None, Zoom(8.0)):
        assert "a part of the history is lost" in header(kept.store, zoom)
        assert "whole run" not in header(kept.store, zoom)


def test_no_line_leads_over_what_is_lost() -> None:
    kept = keeping()
    kept.add([record(61 + n, (TAG,), [5.0]) for n in range(10)], is_paused=False)
    question = kept.question()
    assert question is not None
    kept.answer(question, NoAnswer("never"))
    kept.add([record(71 + n, (TAG,), [5.0]) for n in range(10)], is_paused=False)
    bins = kept.store.bins(TAG)
    assert bins[Field.COUNT].sum() == 20
    span = Span(1, 80)
    scale = value_range([bins], "iteration", span)
    assert scale is not None
    line = columns_of(bins, "iteration", span, 80, scale).line
    assert np.isfinite(line[:10]).all()
    assert np.isnan(line[12:68]).all()
    assert np.isfinite(line[71:]).all()
    assert values_of(bins.where(bins[Field.COUNT] == 0)) is None
