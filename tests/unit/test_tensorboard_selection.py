"""What of the history reaches a backend, and at which step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from told_history import LEARNER, History, steps, take

from unilab_metrics.write.items import Restart, Scalar, Scalars, Text
from unilab_metrics.write.position import Position
from unilab_metrics.write.selection import MAX_WAITING, Selection
from unilab_schema.frames import EventFrame
from unilab_schema.metrics import TERMINAL_ONLY
from unilab_schema.updates import (
    EventUpdate,
)


@pytest.fixture
def history() -> History:
    return History()


def test_the_step_is_the_iteration_for_an_on_policy_run(history: History) -> None:
    history.open()
    for iteration in range(3):
        history.update(iteration, env_steps=640 * (iteration + 1))
    assert steps(take(history)) == [0, 1, 2]


def test_the_step_is_env_steps_and_the_iteration_while_they_stand_at_zero(
    history: History,
) -> None:
    history.open("sac", "env_steps")
    values = {"Loss/actor": 1.0, "Train/iteration": 1.0}
    history.update(1, values, env_steps=None)
    history.update(2, values, env_steps=0)
    history.update(3, values, env_steps=96)
    history.update(4, values, env_steps=96)
    items = take(history)
    assert steps(items) == [1, 2, 96, 96]
    assert [item.tags for item in items if isinstance(item, Scalars)] == [
        ("Loss/actor",),
        ("Loss/actor",),
        ("Loss/actor", "Train/iteration"),
        ("Loss/actor", "Train/iteration"),
    ]


def test_the_step_is_whole_elapsed_seconds_on_the_time_axis(history: History) -> None:
    history.open("ppo", "wall_time")
    for iteration in range(3):
        history.update(iteration)
    assert steps(take(history)) == [0, 1, 3]


def test_a_step_never_falls_when_nobody_counts_any_more(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=64)
    history.update(2, env_steps=None)
    assert steps(take(history)) == [64, 64]


def test_terminal_only_tags_and_foreign_phases_reach_no_backend(history: History) -> None:
    history.open("sac", "env_steps")
    tags = [
        *TERMINAL_ONLY,
        "Perf/learner_replay_stage_ms",
        "Perf/learner_weight_publish_ms",
        "Perf/collection_time",
        "Perf/collector_mlp_infer_ms",
    ]
    kept = {"Perf/learner_inference_ms": 1.0, "mine/own": float("nan"), "Perf/learning_time": 2.0}
    history.update(1, {**dict.fromkeys(tags, 0.0), **kept}, env_steps=1)
    (item,) = take(history)
    assert isinstance(item, Scalars)
    assert item.tags == tuple(kept)
    np.testing.assert_array_equal(item.values, list(kept.values()))


def test_an_algorithm_without_a_profile_keeps_every_phase(history: History) -> None:
    history.open("mine")
    values = {"Perf/learner_replay_stage_ms": 1.0, "Perf/collector_mlp_infer_ms": 2.0}
    history.update(0, values)
    (item,) = take(history)
    assert isinstance(item, Scalars)
    assert item.tags == tuple(values)


def test_an_update_of_terminal_only_tags_yields_nothing(history: History) -> None:
    history.open()
    history.update(0, {"Terminal/num_envs": 1.0})
    selection = Selection(Position())
    assert take(history, selection) == []
    assert selection.position.update == 2


def test_a_supplement_lands_on_the_step_of_its_iteration(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=640)
    history.supplement(1)
    assert steps(take(history)) == [640, 640]


def test_points_keep_their_own_steps(history: History) -> None:
    history.open()
    history.update(5)
    history.point(3)
    assert take(history)[1:] == [Scalar(3, 9, "eval/score", 1.0)]


def test_the_configuration_is_text_and_other_events_are_not(history: History) -> None:
    history.open()
    history.event("status")
    history.event("config", "algo: sac")
    assert take(history) == [Text(0, 7, "config", "```\nalgo: sac\n```")]


def test_alerts_of_the_aggregators_own_reach_no_backend_and_hold_no_position_up(
    history: History,
) -> None:
    history.open()
    history.update(1)
    for kind in ("alert", "alert_over"):
        facts: dict[str, Any] = {"rule": "nonfinite", "subject": "Loss/value", "alert": 3}
        history.add(EventUpdate(1, None, EventFrame(kind, "NaN in Loss/value", 0, 7, 1, facts)))
    selection = Selection(Position())
    assert steps(take(history, selection)) == [1]
    assert selection.position.update == 4


def test_a_configuration_of_fields_only_becomes_json(history: History) -> None:
    history.open()
    frame = EventFrame("config", "", 0, 7, None, {"algo.lr": 0.1})
    history.add(EventUpdate(1, LEARNER, frame))
    (item,) = take(history)
    assert isinstance(item, Text)
    assert '"algo.lr": 0.1' in item.text


@pytest.mark.parametrize("interval", [1, 3, 100])
def test_log_interval_thins_and_always_writes_the_last_iteration(
    history: History, interval: int
) -> None:
    history.open()
    for iteration in range(20):
        history.update(iteration)
    history.supplement(19)
    history.supplement(18)
    history.end()
    selection = Selection(Position(), interval)
    written = steps(take(history, selection))
    expected = [step for step in range(20) if step % interval == 0 or step == 19]
    late = [19] + [18] * (18 % interval == 0)
    assert written == expected + late
    assert selection.position.update == len(history.records)


def test_log_interval_writes_the_last_iteration_of_every_attempt(history: History) -> None:
    for _ in range(2):
        history.open()
        for iteration in range(5):
            history.update(iteration)
    history.end()
    items = take(history, Selection(Position(), 3))
    assert [item.step for item in items] == [0, 3, 4, 0, 0, 3, 4]
    assert isinstance(items[3], Restart)


def test_the_position_does_not_cover_an_update_that_may_be_the_last(history: History) -> None:
    history.open()
    history.update(0)
    skipped = history.update(1)
    history.point(1)
    selection = Selection(Position(), 10)
    take(history, selection)
    assert selection.position.update == skipped.sequence - 1


def test_a_long_wait_for_the_next_iteration_is_bounded(history: History) -> None:
    history.open()
    history.update(0)
    history.update(1)
    for step in range(MAX_WAITING):
        history.point(step)
    selection = Selection(Position(), 10)
    assert len(take(history, selection)) == MAX_WAITING + 2
    assert selection.position.update == len(history.records)


def test_a_resume_at_an_older_step_restarts_before_anything_of_the_new_attempt(
    history: History,
) -> None:
    history.open()
    for iteration in range(150):
        history.update(iteration)
    history.open()
    history.event("config", "second")
    history.point(120)
    history.update(100)
    history.update(101)
    items = take(history)[150:]
    assert items[0] == Restart(100, 100)
    assert [item.step for item in items[1:]] == [0, 120, 100, 101]


def test_a_resume_at_the_next_iteration_does_not_restart(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=64)
    history.open("sac", "env_steps")
    history.update(2, env_steps=64)
    assert [type(item) for item in take(history)] == [Scalars, Scalars]


def test_a_counter_that_starts_anew_restarts(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(10, env_steps=640)
    history.open("sac", "env_steps")
    history.update(11, env_steps=64)
    assert take(history)[1:2] == [Restart(64, 11)]


def test_values_of_an_earlier_attempt_after_a_restart_are_counted_not_written(
    history: History,
) -> None:
    history.open()
    for iteration in range(3):
        history.update(iteration)
    history.open()
    history.supplement(2, attempt=1)
    history.update(1)
    history.supplement(2, attempt=1)
    selection = Selection(Position())
    assert [item.step for item in take(history, selection)] == [0, 1, 2, 1, 1]
    assert selection.stale_values == 2


def test_an_attempt_that_ended_before_its_first_update_loses_nothing(history: History) -> None:
    history.open()
    history.update(0)
    history.open()
    history.event("config", "second")
    history.end()
    history.open()
    history.point(1)
    selection = Selection(Position())
    assert [type(item) for item in take(history, selection)] == [Scalars, Text]
    assert selection.position.update == 6
