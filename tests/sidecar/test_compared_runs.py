"""An earlier run beside the one that is looked at: its name, its values at the cursor, its single
updates in a narrow window. From files, without the app."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chart_runs import store_of
from long_history import LongHistory

from unilab_metrics.subscribe.earlier_runs import EarlierRuns, run_in_words
from unilab_sidecar.charting.beside import Beside
from unilab_sidecar.charting.bins import Field, Span
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState, Zoom
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, Question, RunNames, RunsQuestion, put
from unilab_sidecar.views.charts import view, window_of

COUNT = 20_000
TAG = "Loss/critic"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> EarlierRuns:
    folder = tmp_path_factory.mktemp("runs")
    made = LongHistory(folder / "a-1", tags=(TAG, "Train/iteration"))
    made.updates(COUNT)
    made.end()
    config = {"run": {"algo": "ppo"}, "config": {"algo": {"seed": 7}, "env": {"seed": 3}}}
    (made.write() / "run_config.json").write_text(json.dumps(config))
    nameless = LongHistory(folder / "a-0", tags=(TAG,))
    nameless.updates(3)
    nameless.write()
    (folder / "b").mkdir()
    return EarlierRuns(folder / "b")


def settled(beside: Beside, earlier: EarlierRuns, state: ChartState, window: Window | None) -> None:
    """Asks, and hears the answers, until there is nothing more to ask."""
    source = cast("Any", SimpleNamespace(earlier=earlier))
    for _ in range(100):
        asked = beside.question(state, window)
        if asked is None:
            return
        following: Question | None = asked
        while following is not None:
            step = put(following, asked, source)
            assert step is not None
            if step.answer is not None:
                beside.answer(step.answer)
            following = step.following
    raise AssertionError("it never has enough")


def test_two_runs_of_a_task_are_told_apart_by_seed_and_algorithm(earlier: EarlierRuns) -> None:
    beside = Beside()
    labels: list[str] = []
    for place in (0, 1, -1):
        state = ChartState((TAG,), earlier=place)
        settled(beside, earlier, state, None)
        labels.append(beside.data(state).compare_label)
    assert labels == ["1 of 2: a-1, seed 7, ppo", "2 of 2: a-0", ""]
    # A single one needs no number.
    alone = Beside()
    alone.answer(Answer(RunsQuestion(), RunNames(("a-1",), ("seed 7",))))
    assert alone.data(ChartState((TAG,), earlier=0)).compare_label == "a-1, seed 7"


def test_what_has_no_room_of_an_earlier_runs_label_goes_in_whole_parts() -> None:
    label = "1 of 2: 2026-11-30_13-30-02_numpy, seed 7, ppo"
    store = store_of({TAG: [1.0, 2.0]})
    data = ChartData(store, (TAG,), store, label)
    heads = [
        plain(view(data, ChartState((TAG,)), columns, 24).lines[0])
        for columns in (90, 79, 74, 64, 50)
    ]
    assert [head.partition("┄ ")[2] for head in heads] == [
        label,
        label.removesuffix(", ppo"),
        "1 of 2: 2026-11-30_13-30-02_numpy",
        "1 of 2: …30_13-30-02_numpy",
        "1 of 2: 202…",
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"run": {"algo": "sac"}, "config": {"seed": 5}}, "seed 5, sac"),
        ({"run": {"algo": "sac"}, "config": {"a": {"b": {"seed": 1}}, "c": {"seed": 2}}},
         "seed 2, sac"),
        ({"run": {"algo": "sac"}, "config": {"seed": True, "x": [1, {"seed": 9}]}}, "sac"),
        ({"config": {"seed": "one"}}, "seed one"),
        ({"run": [], "config": None}, ""),
        ([], ""),
    ],
)  # fmt: skip
def test_a_configuration_of_any_kind_has_its_seed_found(told: object, words: str) -> None:
    assert run_in_words(json.dumps(told).encode()) == words


def test_what_is_no_configuration_says_nothing(tmp_path: Path) -> None:
    assert run_in_words(b"{") == run_in_words(b"[" * 100_000) == run_in_words(b"\xff") == ""
    assert EarlierRuns(tmp_path).about("../nothing") == ""
    assert EarlierRuns(None).about("a") == ""


def test_deep_in_the_run_the_earlier_one_is_drawn_from_single_updates_too(
    earlier: EarlierRuns,
) -> None:
    beside, own = Beside(), ChartData(store_of({TAG: [0.0] * 100}), (TAG,))
    state = ChartState((TAG,), earlier=0)
    settled(beside, earlier, state, None)
    joined = beside.data(state).compare
    assert joined is not None
    blocks = joined.bins(TAG)
    assert (blocks[Field.COUNT] > 500).any()
    # A window of 40 updates in the middle of it.
    span = Span(9990.0, 10_030.0)
    zoomed = ChartState((TAG,), earlier=0, zoom=Zoom(40.0, 10_030.0), cursor=10_010.0)
    data = own._replace(compare=joined, compare_label="a-1", earlier=1)
    window = window_of(data, zoomed)
    assert window == Window((TAG,), "iteration", span, 1)
    settled(beside, earlier, zoomed, window)
    bins = joined.bins(TAG)
    first, last = bins.along("iteration")
    inside = bins.where((last >= span.low) & (first <= span.high))
    assert len(inside) == 41
    assert (inside[Field.COUNT] == 1).all()
    value = LongHistory.value(cast("Any", SimpleNamespace(tags=(TAG,))), TAG, 10_010)
    lines = view(data, zoomed, 100, 24).lines
    assert f"┄ earlier {value:.4g}" in "\n".join(map(plain, lines))
    # The rest of the run is not read for it.
    assert len(bins) < 20_000 / 2


def test_the_earlier_runs_value_is_the_one_at_the_cursor_or_none() -> None:
    numbers = [float(number) for number in range(1, 101)]
    data = ChartData(
        store_of({TAG: numbers}), (TAG,), store_of({TAG: [10 * n for n in numbers[:60]]}), "twin"
    )

    def shown(state: ChartState) -> str:
        return "\n".join(plain(one) for one in view(data, state, 100, 24).lines)

    zoom = Zoom(20.0, 70.0)
    assert "value 55  ┄ earlier 550" in shown(ChartState((TAG,), zoom=zoom, cursor=55.0))
    assert "value 60  ┄ earlier 600" in shown(ChartState((TAG,), zoom=zoom, cursor=60.0))
    assert "value 61  ┄ earlier -" in shown(ChartState((TAG,), zoom=zoom, cursor=61.0))
    assert "┄ earlier -" in shown(ChartState((TAG,), cursor=100.0))
    steps = ChartState((TAG,), "env_steps", zoom=Zoom(256 * 20.0, 256 * 70.0), cursor=256 * 58.0)
    assert "value 58  ┄ earlier 580" in shown(steps)
    time = ChartState((TAG,), "time", zoom=Zoom(2.0, 7.0), cursor=6.5)
    assert "┄ earlier -" in shown(time)
    # The other way round: behind this run's newest update there is the earlier one alone.
    data = data._replace(store=data.compare or data.store, compare=data.store)
    behind = shown(ChartState((TAG,), zoom=zoom, cursor=65.0))
    assert "no value  ┄ earlier 65" in behind
    assert "▲ iteration 65" in behind


def test_an_earlier_run_that_ends_before_the_window_has_no_say_in_its_scale() -> None:
    numbers = [100.0 + number / 100 for number in range(100)]
    data = ChartData(store_of({TAG: numbers}), (TAG,), store_of({TAG: [5.0] * 60}), "twin")
    state = ChartState((TAG,), zoom=Zoom(20.0, 90.0))
    alone, beside = (
        [plain(one) for one in view(made, state, 100, 24).lines]
        for made in (data._replace(compare=None), data)
    )
    assert beside[3:] == alone[3:]
    assert beside[2].endswith("┄ earlier -")


def test_without_unicode_the_earlier_runs_mark_is_the_dot_it_is_drawn_with() -> None:
    store = store_of({TAG: [1.0, 2.0, 3.0]})
    data = ChartData(store, (TAG,), store_of({TAG: [3.0, 2.0, 1.0]}), "twin")
    lines = view(data, ChartState((TAG,)), 100, 24, unicode=False).lines
    text = "\n".join(map(plain, lines))
    assert "whole run - . twin" in text
    assert ". earlier 1" in text


def test_courses_of_an_earlier_run_in_one_chart_are_told_apart_by_their_tags() -> None:
    courses = {"Loss/a": [1.0] * 40, "Loss/b": [9.0] * 40}
    earlier = {"Loss/a": [3.0] * 60, "Loss/b": [7.0] * 60}
    data = ChartData(store_of(courses), tuple(courses), store_of(earlier), "twin")
    state = ChartState(tuple(courses), overlay="together")
    for unicode in (True, False):
        lines = view(data, state, 130, 24, unicode=unicode).lines
        styles = [
            {part.style for part in parts if part.style.startswith("series")}
            for parts in ([p for p in one if p.style.startswith("series")] for one in lines[2:])
        ]
        drawn = [style for found in styles for style in found]
        # Each has a row of its own, and the one before it in the same style.
        assert drawn.count("series1") >= 3
        assert drawn.count("series2") >= 3
        assert "series6" not in drawn
    text = "\n".join(map(plain, lines))
    assert "A earlier 3" in text
    assert "B earlier 7" in text
    assert "AAAA" in text
    assert ". earlier" not in text


def test_of_an_earlier_run_that_is_not_all_here_it_is_said() -> None:
    store = store_of({TAG: [1.0, 2.0]})
    data = ChartData(store_of({TAG: [1.0, 2.0]}), (TAG,), store, "a-1, sac")
    heads: list[str] = []
    for _ in range(2):
        heads.append(plain(view(data, ChartState((TAG,)), 100, 24).lines[0]))
        store.interrupt()
    assert [head.partition("┄ ")[2] for head in heads] == ["a-1, sac", "a-1, sac, loading"]
