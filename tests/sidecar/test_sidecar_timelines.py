"""The learner's and the collector's rows on the screen: means, Other, rows that stay."""

from __future__ import annotations

import math
import struct

import pytest
from screen_text import text
from series_records import EPOCH, SAC, head, pack, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Snapshot
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series


def timing(wall_ms: float, learning_ms: float, wait_ms: float = 0.0) -> dict[str, float]:
    return {
        "Perf/iteration_time": wall_ms / 1e3,
        "Perf/learning_time": learning_ms / 1e3,
        "Perf/learner_collector_wait_ms": wait_ms,
    }


def rows(shown: Picture) -> dict[str, tuple[float | None, float | None]]:
    assert shown.learner is not None
    return {row.label: (row.ms, row.percent) for row in shown.learner.rows}


def test_other_is_clamped_per_update_and_then_averaged():
    # The first update's phases exceed its wall by 2, the second leaves 4 unnamed.
    shown = picture(update(1, timing(10, 12)), update(2, timing(10, 6)))
    assert shown.learner is not None
    assert rows(shown)["Other"][0] == pytest.approx(2.0)
    assert rows(shown)["Iter Wall"] == (pytest.approx(10.0), pytest.approx(100.0))
    assert shown.learner.over_accounted


def test_walls_of_two_ranks_with_a_phase_on_one_add_up_without_an_alert():
    # Learning 6 and 10 of 10 and 10, 4 elsewhere on rank 0 only: reduced to 8 + 2.
    shown = picture(update(1, timing(10, 8, 2)))
    assert shown.learner is not None
    assert not shown.learner.over_accounted
    assert rows(shown)["Learning"][1] == pytest.approx(80.0)
    assert rows(shown)["Collector Wait"][1] == pytest.approx(20.0)
    assert rows(shown)["Other"][0] == pytest.approx(0.0)


def test_phases_beyond_the_wall_raise_the_alert_and_keep_the_wall():
    shown = picture(update(1, timing(10, 12)))
    assert shown.learner is not None
    assert shown.learner.over_accounted
    assert shown.learner.accounted_percent == pytest.approx(120.0)
    assert rows(shown)["Other"][0] == 0.0
    assert rows(shown)["Iter Wall"][1] == pytest.approx(100.0)


def test_a_phase_that_never_happened_in_the_run_takes_no_row():
    quiet = timing(10, 6) | {"Perf/learner_inference_ms": 0.0}
    series = Series()
    series.add(Batch((update(1, quiet),), head(1.0)))
    assert list(rows(series.picture())) == ["Learning", "Other", "Iter Wall"]
    assert rows(series.picture())["Other"][0] == pytest.approx(4.0)
    # It has happened once: from now on 0 is a value, also when it lies outside the window.
    series.add(Batch((update(2, quiet | {"Perf/learner_inference_ms": 1.0}),), head(2.0)))
    series.add(Batch((update(9, quiet),), head(9.0)))
    assert list(rows(series.picture())) == ["Inference", "Learning", "Other", "Iter Wall"]
    assert rows(series.picture())["Inference"] == (0.0, 0.0)


def test_what_happened_before_this_viewer_joined_has_its_row():
    series = Series()
    values = {"Perf/learner_collector_wait_ms": 2.0, "Perf/learner_inference_ms": 0.0}
    updates = struct.pack("<2q", 1, 1)
    known = Snapshot(1, EPOCH, 1, tuple(values), pack(values), updates)
    series.add(Batch((update(2, timing(10, 6)),), head(2.0), snapshot=known))
    assert list(rows(series.picture())) == ["Collector Wait", "Learning", "Other", "Iter Wall"]


def test_a_phase_that_is_no_number_has_happened():
    shown = picture(update(1, timing(10, 6, math.nan)))
    assert "Collector Wait" in rows(shown)


def test_without_a_timing_there_is_no_timeline():
    assert picture(update(1, {"Loss/actor": 1.0})).learner is None


def test_collector_rows_follow_their_order_and_the_one_percent_rule():
    shown = picture(
        update(
            1,
            {
                "Perf/collector_metrics_publish_ms": 0.7,
                "Perf/collector_replay_write_ms": 8.0,
                "Perf/collector_transition_extract_ms": 1.0,
                "Perf/collector_env_step_backend_ms": 25.0,
                "Perf/collector_env_step_ms": 30.0,
                "Perf/collector_learner_action_wait_ms": 60.0,
                "Perf/collector_inference_request_ms": 0.3,
            },
        )
    )
    assert shown.collector is not None
    assert [(row.label, row.percent) for row in shown.collector.rows] == [
        ("Learner Action Wait", pytest.approx(60.0)),
        ("Env Step", pytest.approx(30.0)),
        ("Backend Step", pytest.approx(25.0)),
        ("Transition Extract", pytest.approx(1.0)),
        ("Replay Write", pytest.approx(8.0)),
    ]


def collector(env_ms: float, publish_ms: float) -> dict[str, float]:
    return {
        "Perf/collector_inference_request_ms": 0.3,
        "Perf/collector_learner_action_wait_ms": 99.7 - env_ms - publish_ms,
        "Perf/collector_env_step_ms": env_ms,
        "Perf/collector_replay_write_ms": 0.0,
        "Perf/collector_metrics_publish_ms": publish_ms,
    }


def test_a_row_stays_until_it_has_been_below_one_percent_for_five_seconds():
    series = Series()
    has_row: list[bool] = []
    for second, publish_ms in enumerate([0.9, 1.0, 0.9, 0.4, 0.9, 0.9, 1.5, *([0.9] * 4)], start=1):
        values = collector(30.0, publish_ms)
        series.add(Batch((update(4 * second, values, sealed_s=2.1 * second),), head(2.1 * second)))
        shown = series.picture().collector
        assert shown is not None
        rows = [row for row in shown.rows if row.label == "Metrics Publish"]
        has_row.append(bool(rows))
        if rows:
            assert rows[0].percent == pytest.approx(publish_ms)
            assert shown.rows[-1] == rows[0]
    lately = [True] * 3
    assert has_row == [False, *lately, False, False, *lately, False, False]


def test_a_new_attempt_forgets_which_rows_were_shown():
    series = Series()
    series.add(Batch((update(1, collector(30.0, 1.5)),), head(1.0)))
    series.picture()
    opened = HistoryRecord(2, AttemptOpened(2, 0, SAC), ())
    later = update(3, collector(30.0, 0.4), sealed_s=2.0, attempt=2)
    series.add(Batch((opened, later), head(2.0, attempt=2)))
    shown = series.picture().collector
    assert shown is not None
    assert "Metrics Publish" not in [row.label for row in shown.rows]


@pytest.mark.parametrize("columns", [40, 70, 80, 95])
def test_milliseconds_of_a_collector_without_percentages_stand_below_the_learners(columns: int):
    values = timing(50, 40) | {
        "Perf/collector_mlp_infer_ms": 0.4,
        "Perf/collector_env_step_ms": 2.2,
        "Perf/collection_time": 0.0625,
    }
    record = update(1, values)
    run = RunInfo("appo", "go2_joystick_flat")
    shown = text(picture_of(Batch((record,), head(1.0, run=run), connected=True)), columns)
    ends = [
        next(row.index(number) + len(number) for row in shown.splitlines() if row.startswith(label))
        for label, number in (("Learning", "40.00"), ("MLP Infer", "0.40"), ("Rollout", "62.50"))
    ]
    assert len(set(ends)) == 1


def picture_of(batch: Batch) -> Picture:
    series = Series()
    series.add(batch)
    return series.picture()


def test_a_collector_without_a_whole_cycle_says_what_it_has_not_timed():
    whole = {f"Perf/collector_{name}_ms": 1.0 for name in
             ("inference_request", "learner_action_wait", "env_step", "replay_write")}  # fmt: skip
    part = {"Perf/collector_env_step_ms": 4.2}
    told = {
        80: "no %, not timed: Inference Request, Learner Action Wait, Replay Write",
        100: "no %, not timed: Request, Action Wait, Write",
        120: "no %: 3 not timed",
        160: "no %, not timed: Request, Action Wait, Write",
    }
    for columns, words in told.items():
        shown = text(picture(update(1, timing(10, 8) | part)), columns)
        assert words in shown
        assert shown.count("not timed") == 1
        for name in ("Learner Action Wait", "Replay Write"):
            assert name in shown
        whole_one = picture(update(1, timing(10, 8) | whole))
        assert "not timed" not in text(whole_one, columns)


WHOLE = {
    f"Perf/collector_{name}_ms": ms
    for name, ms in {
        "inference_request": 1.0,
        "learner_action_wait": 2.0,
        "env_step": 4.0,
        "replay_write": 3.0,
    }.items()
}


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_a_collectors_phase_of_ones_own_is_a_row_below_those_of_the_cycle(columns: int):
    own = {"Perf/collector_inference_ms": 2.5, "Perf/collector_to_gpu_ms": 0.04}
    shown = picture(update(1, timing(10, 8) | WHOLE | own))
    assert shown.collector is not None
    assert shown.collector.cycle_ms == pytest.approx(10.0)
    parts = [row.percent for row in shown.collector.rows if not row.detail]
    assert sum(part or 0 for part in parts) == pytest.approx(100.0)
    drawn = text(shown, columns)
    lines = [one[one.find("also timed") :].split("   ")[0] for one in drawn.splitlines()]
    assert [one for one in lines if one.startswith("also")] == ["also timed, in no sum:"]
    below = drawn.partition("also timed")[2]
    row = next(one for one in below.splitlines() if "Inference" in one)
    assert row.split("Inference")[1].split()[:2] == ["2.50", "25.0"]
    row = next(one for one in below.splitlines() if "To Gpu" in one)
    assert row.split("To Gpu")[1].split()[:2] == ["0.04", "0.4"]
    assert "Perf/" not in drawn
    assert not shown.others


@pytest.mark.parametrize("columns", [80, 120])
def test_without_a_cycle_a_phase_of_ones_own_is_a_row_like_the_others(columns: int):
    part = {"Perf/collector_env_step_ms": 4.2, "Perf/collector_inference_ms": 2.5}
    shown = text(picture(update(1, timing(10, 8) | part)), columns)
    assert "also timed" not in shown
    assert "Perf/" not in shown
    rows = shown.splitlines()
    above = next(n for n, one in enumerate(rows) if "Replay Write  " in one)
    assert rows[above + 1].find("Inference ") == rows[above].find("Replay Write ")


@pytest.mark.parametrize("algorithm", ["appo", "ppo", "mine", ""])
def test_algorithms_without_a_cycle_have_rows_of_ones_own_in_milliseconds(algorithm: str):
    run = RunInfo(algorithm, "go2_joystick_flat")
    record = update(1, timing(10, 8) | {"Perf/collector_inference_ms": 2.5})
    shown = picture_of(Batch((record,), head(1.0, run=run), connected=True))
    assert shown.collector is not None
    assert [(row.label, row.ms, row.percent) for row in shown.collector.rows] == [
        ("Inference", 2.5, None)
    ]
    assert not shown.others
    for columns in (80, 120):
        assert "Perf/" not in text(shown, columns)


def test_a_quiet_row_that_is_held_keeps_its_place_before_those_of_ones_own():
    own = {"Perf/collector_inference_ms": 2.5, "Perf/collector_env_step_render_ms": 1.0}
    loud = WHOLE | own | {"Perf/collector_metrics_publish_ms": 1.0}
    quiet = loud | {"Perf/collector_metrics_publish_ms": 0.01}
    series = Series()
    series.add(Batch((update(1, loud, sealed_s=1.0),), head(1.0), connected=True))
    series.picture()
    series.add(Batch((update(2, quiet, sealed_s=4.5),), head(4.5), connected=True))
    shown = series.picture()
    assert shown.collector is not None
    assert [row.label for row in shown.collector.rows] == [
        "Inference Request", "Learner Action Wait", "Env Step", "Env Step Render", "Replay Write",
        "Metrics Publish", "Inference",
    ]  # fmt: skip
    assert [row.label for row in shown.collector.rows if row.own] == ["Inference"]


@pytest.mark.parametrize("tag", ["losses/value_loss", "loss/critic", "Losses/q"])
def test_what_other_libraries_call_a_loss_stands_with_the_losses_under_its_own_name(tag: str):
    shown = picture(update(1, {tag: 0.5}))
    assert [(one.tag, one.label) for one in shown.losses] == [(tag, tag)]
    assert shown.others == ()
