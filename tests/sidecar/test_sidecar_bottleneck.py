"""The bottleneck's line: when it comes and goes, that it moves nothing, and what it says."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sample_run import SampleRun, whole_run
from screen_text import text
from series_records import SAC, head, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.bottleneck import THRESHOLDS, Rule, bottleneck
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.drawing.text import line_width, plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels import bottleneck as panel
from unilab_sidecar.picture import Picture
from unilab_sidecar.printed.plain import format_line, run_plain
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout

REAL = Path(__file__).parent / "real_timings"
SIZES = [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)]

SLOW: dict[Rule, dict[str, float]] = {
    "collector": {
        "Perf/iteration_time": 0.128, "Perf/learner_collector_wait_ms": 84.0,
        "Perf/collector_env_step_ms": 100.0, "Perf/collector_learner_action_wait_ms": 1.0,
    },
    "learner": {
        "Perf/iteration_time": 1.02, "Perf/learning_time": 1.0,
        "Perf/learner_collector_wait_ms": 0.1, "Perf/collector_learner_action_wait_ms": 1010.0,
    },
    "inference": {
        "Perf/iteration_time": 0.153, "Perf/learner_inference_ms": 103.0,
        "Perf/learner_inference_forward_ms": 102.0,
    },
    "prefetch": {"Perf/iteration_time": 0.137, "Perf/learner_replay_batch_wait_ms": 84.0},
    "ingress": {
        "Perf/iteration_time": 0.128, "Perf/learner_collector_wait_ms": 84.0,
        "Perf/collector_replay_write_ms": 100.0, "Perf/collector_learner_action_wait_ms": 1.0,
    },
    "submit": {"Perf/replay_ingress_h2d_submit_ms": 27.0},
}  # fmt: skip


def timing(wait_percent: float) -> dict[str, float]:
    """An iteration of 100 ms that waits for its collector."""
    return {
        "Perf/iteration_time": 0.1,
        "Perf/learning_time": (100.0 - wait_percent) / 1e3,
        "Perf/learner_collector_wait_ms": wait_percent,
    }


class Viewer:
    """A series that is given one update after another."""

    def __init__(self, run: RunInfo = SAC) -> None:
        self._series = Series()
        self._sequence = 1
        opened = HistoryRecord(1, AttemptOpened(1, 0, run), ())
        self._series.add(Batch((opened,), head(0.0, run=run)))

    def see(self, sealed_s: float, values: dict[str, float]) -> Picture:
        self._sequence += 1
        record = update(self._sequence, values, sealed_s=sealed_s)
        self._series.add(Batch((record,), head(sealed_s)))
        return self._series.picture()


def rule_of(picture: Picture) -> Rule | None:
    return None if picture.bottleneck is None else picture.bottleneck.rule


def test_one_slow_iteration_is_no_bottleneck() -> None:
    viewer = Viewer()
    seen = [rule_of(viewer.see(0.5 * tick, timing(90.0 if tick == 12 else 1.0)))
            for tick in range(40)]  # fmt: skip
    assert seen == [None] * 40


def test_a_bottleneck_is_told_once_two_windows_without_a_common_update_say_so() -> None:
    viewer = Viewer()
    seen = [rule_of(viewer.see(0.5 * tick, timing(60.0))) for tick in range(8)]
    assert seen == [None] * 5 + ["collector"] * 3


def test_iterations_longer_than_the_window_need_two_in_a_row() -> None:
    viewer = Viewer()
    waits = [1.0, 60.0, 1.0, 60.0, 60.0, 60.0, 1.0]
    seen = [rule_of(viewer.see(5.0 * tick, timing(wait))) for tick, wait in enumerate(waits)]
    assert seen == [None, None, None, None, "collector", "collector", None]


def test_a_share_around_the_threshold_does_not_flicker() -> None:
    viewer = Viewer()
    for tick in range(8):
        shown = viewer.see(0.5 * tick, timing(30.0))
    assert rule_of(shown) == "collector"
    around = [23.0, 27.0, 21.0, 24.0] * 8
    seen = {rule_of(viewer.see(4.0 + 0.5 * tick, timing(w))) for tick, w in enumerate(around)}
    assert seen == {"collector"}
    viewer = Viewer()
    seen = {rule_of(viewer.see(0.5 * tick, timing(w))) for tick, w in enumerate(around)}
    assert seen == {None}


def test_another_attempt_starts_without_one() -> None:
    viewer = Viewer()
    for tick in range(8):
        viewer.see(0.5 * tick, timing(60.0))
    opened = HistoryRecord(50, AttemptOpened(2, 0, SAC), ())
    record = update(51, timing(60.0), sealed_s=4.5, attempt=2)
    viewer._series.add(Batch((opened, record), head(4.5)))
    assert viewer._series.picture().bottleneck is None


def test_the_sample_run_has_none(training: Picture) -> None:
    assert training.bottleneck is None
    assert "Bottleneck" not in text(training, 160)
    assert "bottleneck" not in format_line(training)


@pytest.mark.parametrize("name", ["sac", "appo"])
def test_real_runs_are_told_nothing_on_the_way(name: str) -> None:
    """Their first iteration waits 3 and 7 s for a collector that is starting."""
    viewer = Viewer(run_of(name))
    sealed_s, greatest = 0.0, 0.0
    for values in real_timings(name):
        sealed_s += values["Perf/iteration_time"]
        shown = viewer.see(sealed_s, values)
        assert shown.bottleneck is None
        assert shown.learner is not None
        learning = next(row for row in shown.learner.rows if row.label == "Learning")
        greatest = max(greatest, learning.percent or 0.0)
    # The learner's threshold lies above what they do by themselves; APPO has no such rule.
    assert 95.0 < greatest < (THRESHOLDS["learner"].keep if name == "sac" else 100.0)


def test_the_first_iteration_of_the_real_runs_alone_would_be_told() -> None:
    for name in ("sac", "appo"):
        found = bottleneck(real_timings(name)[0], name)
        assert found is not None
        assert found.rule == "collector"


def run_of(name: str) -> RunInfo:
    return RunInfo(name, "task", "numpy", "env_steps", 100)


def real_timings(name: str) -> list[dict[str, float]]:
    with (REAL / f"{name}.csv").open(newline="") as file:
        return [
            {tag: float(value) for tag, value in row.items() if value}
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def slowed() -> Callable[[Rule], Picture]:
    def make(rule: Rule) -> Picture:
        run, batches = whole_run(30)
        return _after(run, batches, rule)

    made = {rule: make(rule) for rule in SLOW}
    return made.__getitem__


def _after(run: SampleRun, batches: list[Batch], rule: Rule) -> Picture:
    series = Series()
    for batch in batches:
        series.add(batch)
    for _ in range(90):
        series.add(run.batch(run.update(SLOW[rule])))
    return series.picture()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rule", list(SLOW))
def test_the_line_fits_with_its_numbers_and_a_place_to_look_at(
    slowed: Callable[[Rule], Picture], rule: Rule, size: tuple[int, int]
) -> None:
    picture = slowed(rule)
    assert rule_of(picture) == rule
    (shown,) = [plain(one) for one in layout(picture, *size).lines if "Bottleneck" in plain(one)]
    assert "…" not in shown
    if rule == "submit":
        # A percentage would read like a share that is lost.
        assert " ms " in shown
        assert "no iteration time lost" in shown
    else:
        assert " %" in shown
    if rule != "submit" or size[0] >= 80:
        assert "→" in shown


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rule", list(SLOW))
def test_its_coming_and_going_moves_no_row(
    slowed: Callable[[Rule], Picture], rule: Rule, size: tuple[int, int]
) -> None:
    picture = slowed(rule)
    with_line = [plain(one) for one in layout(picture, *size).lines]
    without = [plain(one) for one in layout(replace(picture, bottleneck=None), *size).lines]
    assert len(with_line) == len(without)
    differing = [n for n, (a, b) in enumerate(zip(with_line, without, strict=True)) if a != b]
    # A row of its own, or on screens without room for it the place of the last event.
    if differing == [3]:
        assert without[3].strip() == ""
    else:
        assert differing == [2]
        assert size != (160, 48)
    if size[1] == 24:
        assert differing == [2]


def test_no_width_and_no_number_makes_the_line_raise_or_too_long(
    slowed: Callable[[Rule], Picture],
) -> None:
    for rule in SLOW:
        picture = slowed(rule)
        assert picture.bottleneck is not None
        huge = picture.bottleneck.share._replace(ms=1e300, percent=math.inf)
        strange = replace(picture, bottleneck=picture.bottleneck._replace(share=huge))
        for shown in (picture, strange):
            for width in range(301):
                (made,) = panel.bottleneck(shown, width)
                assert line_width(made) <= width
            layout(shown, 1, 1)


def test_an_on_policy_run_has_no_row_for_it(training: Picture) -> None:
    run = RunInfo("ppo", "walk", "numpy", "iteration", 100)
    lines = [plain(one) for one in layout(replace(training, run=run), 80, 24).lines]
    assert "" not in [one.strip() for one in lines]


class GivenFeed:
    """A feed whose batches are all there."""

    run_dir = target = ""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def wait(self, _timeout_s: float) -> list[Batch]:
        return [self._batches.pop(0)]


def lines_of(batches: list[Batch], *, once: bool = False) -> list[str]:
    said: list[str] = []
    run_plain(GivenFeed(batches), said.append, once=once, interval_s=1e9)  # type: ignore[arg-type]
    return said


def test_the_plain_lines_say_when_one_comes_and_when_it_has_gone() -> None:
    run, batches = whole_run(60)
    batches += [run.batch(run.update(SLOW["inference"])) for _ in range(90)]
    batches += [run.batch(run.update()) for _ in range(90)]
    batches += [run.batch(run.end()), run.batch()]
    told = [one for one in lines_of(batches) if one.startswith("bottleneck")]
    assert len(told) == 2
    assert told[0].startswith("bottleneck: Inference 103.0 ms, 67.3 % of Iter Wall; look at forw")
    assert told[1] == "bottleneck: nothing stands out any more"


def test_a_single_line_has_it_too() -> None:
    run, batches = whole_run(1)
    slow = [run.update(SLOW["prefetch"]) for _ in range(90)]
    first = batches[0]
    (said,) = lines_of([run.batch(*first.records, *slow)], once=True)
    assert said.startswith("iter 91/3000  ")
    assert "  bottleneck: Replay Batch Wait 84.0 ms, 61.3 % of Iter Wall; look at ingress" in said
