"""The learner's and the collector's rows on the screen: means, Other, rows that stay."""

from __future__ import annotations

import math
import struct

import pytest
from series_records import EPOCH, SAC, head, pack, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Snapshot
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.batch import Batch
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


def test_a_row_around_one_percent_stays_until_it_has_been_quiet_for_ten_seconds():
    series = Series()
    has_row: list[bool] = []
    for second in range(1, 20):
        loud = second == 3
        values = collector(30.0, 1.5 if loud else 0.4)
        series.add(Batch((update(4 * second, values, sealed_s=4.0 * second),), head(4.0 * second)))
        shown = series.picture().collector
        assert shown is not None
        rows = [row for row in shown.rows if row.label == "Metrics Publish"]
        has_row.append(bool(rows))
        if rows:
            assert rows[0].percent == pytest.approx(1.5 if loud else 0.4)
            assert shown.rows[-1] == rows[0]
    assert has_row == [False, False, True, True, True] + [False] * 14


def test_a_shown_row_stays_while_it_is_around_one_percent():
    series = Series()
    has_row: list[bool] = []
    for second, publish_ms in enumerate([0.9, 1.0, *([0.6] * 6), *([0.4] * 4)], start=1):
        values = collector(30.0, publish_ms)
        series.add(Batch((update(4 * second, values, sealed_s=4.0 * second),), head(4.0 * second)))
        shown = series.picture().collector
        assert shown is not None
        has_row.append("Metrics Publish" in [row.label for row in shown.rows])
    assert has_row == [False, *[True] * 9, False, False]


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
