"""What the charts cannot draw: values without a place, what is still coming, axes nobody counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chart_runs import TAG, blocks_of, record, records_of, store_of
from chart_screens import screen

from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState, Overlay
from unilab_sidecar.charting.store import ChartStore, HistoryPiece


def test_what_has_no_place_on_a_log_scale_is_counted():
    store = store_of({TAG: [-1.0, 0.0, 3.0, math.nan] * 50})
    data = ChartData(store, (TAG,))
    text = screen(data, ChartState((TAG,), log_y=True))
    assert "50 NaN, 100 not above 0" in text
    assert "log scale" in text
    assert "50 NaN " in screen(data, ChartState((TAG,)))
    assert "not above" not in screen(data, ChartState((TAG,)))
    never = ChartData(store_of({TAG: [-1.0] * 9}), (TAG,))
    assert "linear: nothing above 0" in screen(never, ChartState((TAG,), log_y=True))


@pytest.mark.parametrize("overlay", ["apart", "together", "scaled"])
def test_a_chart_that_a_logarithm_would_leave_empty_is_linear_and_says_so(overlay: Overlay):
    courses = {"down": [0.5, *(-float(n) for n in range(1, 60))], "up": [2.0] * 3 + [200.0] * 57}
    data = ChartData(store_of(courses), tuple(courses))
    state = ChartState(tuple(courses), log_y=True, overlay=overlay)
    text = screen(data, state, 140, 40)
    assert text.count("59 not above 0") == 1
    assert ("linear: 59 not above 0" in text) == (overlay != "together")


def test_a_block_says_at_least_how_much_is_not_shown():
    values = np.linspace(-1, 1, 1024).tolist()
    store = ChartStore()
    store.keep([TAG])
    piece = HistoryPiece((TAG,), 0, 1024, blocks_of(records_of(values)), complete=True)
    store.add_piece(piece)
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), log_y=True))
    assert "at least 1 not above 0" in text


def test_what_a_block_counts_as_no_number_is_marked():
    values = [1.0] * 1024 + [2.0] * 1024 + [3.0] * 1024
    values[1500] = math.nan
    store = ChartStore()
    store.keep([TAG])
    piece = HistoryPiece((TAG,), 0, 3072, blocks_of(records_of(values)), complete=True)
    store.add_piece(piece)
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,)))
    assert "1 not finite" in text
    assert text.splitlines()[-2].count("X") == 1


def test_the_history_that_is_still_coming_is_said():
    store = ChartStore()
    store.keep([TAG])
    data = ChartData(store, (TAG,))
    assert "Loading the history: 0 %" in screen(data, ChartState((TAG,)))
    blocks = blocks_of(records_of([1.0] * 1024))
    store.add_piece(HistoryPiece((TAG,), 0, 1024, blocks, newest=4096))
    assert "loading 25 %" in screen(data, ChartState((TAG,)))
    store.add_piece(HistoryPiece((TAG,), 1024, 1024, complete=True))
    assert "loading" not in screen(data, ChartState((TAG,)))


def test_an_axis_that_nobody_counts_is_said():
    store = ChartStore()
    store.keep([TAG])
    store.add_piece(HistoryPiece((TAG,), 0, 0, complete=True))
    store.add_records([record(place, (TAG,), [1.0], env_steps=None) for place in (1, 2)])
    data = ChartData(store, (TAG,))
    text = screen(data, ChartState((TAG,), x_axis="env_steps"))
    assert "Nobody says the env steps" in text
    assert "x for another axis" in text
    assert "steps" not in screen(data, ChartState((TAG,)))
