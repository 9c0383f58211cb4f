"""What the terminal computes: two-second means, newest values, ages."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_records import EPOCH, SAC, S, head, pack, picture, supplement, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Snapshot
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture, Reading
from unilab_sidecar.series import Series


def reading(shown: Picture, tag: str) -> float:
    everything = (*shown.losses, *shown.policy, *shown.diagnostics, *shown.ingress, *shown.others)
    return next(metric.reading.value for metric in everything if metric.tag == tag)


# --- the window --------------------------------------------------------------------------


def test_ranks_are_averaged_before_time():
    # Update A was reduced from ranks with 1 and 3, update B from one rank with 10.
    shown = picture(update(1, {"Loss/actor": 2.0}), update(2, {"Loss/actor": 10.0}))
    assert shown.losses[0].reading.value == 6.0
    assert shown.samples == 2


@given(st.lists(st.floats(0.001, 1.5), min_size=1, max_size=60))
def test_the_window_holds_two_seconds_and_always_the_newest(gaps: list[float]):
    times = [sum(gaps[: count + 1]) for count in range(len(gaps))]
    records = [update(i, {"x": float(i)}, sealed_s=t) for i, t in enumerate(times, 1)]
    sealed_ns = [round(t * S) for t in times]
    inside = [i for i, ns in enumerate(sealed_ns, 1) if ns >= sealed_ns[-1] - 2 * S]
    shown = picture(*records)
    assert shown.samples == len(inside)
    assert inside[-1] == len(records)
    assert reading(shown, "x") == pytest.approx(sum(inside) / len(inside), rel=1e-12)


def test_n_is_the_number_of_updates_without_a_cap():
    shown = picture(*(update(i, {"x": 1.0}, sealed_s=i / 1000) for i in range(1, 3001)))
    assert shown.samples == 2001


def test_a_burst_that_arrives_at_once_is_spread_over_the_aggregators_time():
    # Ten seconds of updates in one batch, as after a stall or on joining late.
    shown = picture(*(update(i, {"x": float(i)}, sealed_s=i / 4) for i in range(1, 41)))
    assert shown.samples == 9
    assert reading(shown, "x") == 36.0


def test_an_iteration_longer_than_the_window_is_shown_alone_with_its_age():
    records = [update(i, {"x": float(i)}, sealed_s=5.0 * i) for i in (1, 2, 3)]
    shown = picture(*records, at=head(15.0), age_s=4.0)
    assert (shown.samples, reading(shown, "x")) == (1, 3.0)
    assert shown.age_s == pytest.approx(4.0)


def test_the_window_does_not_empty_while_nothing_comes():
    series = Series()
    series.add(Batch((update(1, {"x": 7.0}),), head(1.0), connected=True))
    series.add(Batch((), head(601.0), connected=True))
    shown = series.picture()
    assert (shown.samples, reading(shown, "x"), shown.age_s) == (1, 7.0, 600.0)


def test_a_tag_is_averaged_over_the_updates_that_have_it():
    shown = picture(
        update(1, {"a": 1.0, "b": 5.0}, sealed_s=1.0),
        update(2, {"a": 3.0}, sealed_s=1.1),
        update(3, {"a": 5.0, "b": 7.0}, sealed_s=1.2),
    )
    assert (reading(shown, "a"), reading(shown, "b")) == (3.0, 6.0)


def test_a_supplement_joins_its_iteration_while_that_is_in_the_window():
    shown = picture(
        update(1, {"a": 1.0}, sealed_s=1.0),
        update(2, {"a": 3.0, "b": 4.0}, sealed_s=1.5),
        supplement(3, 1, {"b": 2.0}, 1.9),
    )
    assert reading(shown, "b") == 3.0
    assert shown.samples == 2


def test_a_clock_of_another_boot_starts_a_new_window():
    shown = picture(update(1, {"x": 1.0}, sealed_s=9000.0), update(2, {"x": 5.0}, sealed_s=0.5))
    assert (shown.samples, reading(shown, "x")) == (1, 5.0)


def test_attempts_are_never_averaged_together():
    opened = HistoryRecord(2, AttemptOpened(2, 0, SAC), ())
    shown = picture(
        update(1, {"x": 1.0}, sealed_s=1.0), opened, update(3, {"x": 5.0}, sealed_s=1.1, attempt=2)
    )
    assert (shown.samples, reading(shown, "x")) == (1, 5.0)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_no_value_raises_or_touches_another_tag(values: list[float]):
    records = [
        update(i, {"bad": value, "good": 2.0}, sealed_s=i / 100)
        for i, value in enumerate(values, 1)
    ]
    shown = picture(*records)
    assert reading(shown, "good") == 2.0
    if any(math.isnan(value) for value in values):
        assert math.isnan(reading(shown, "bad"))


# --- groups and newest values ------------------------------------------------------------


def test_losses_diagnostics_and_ingress_are_apart_and_in_order():
    tags = [
        "Train/replay_ingress_backpressure_wait_ms",
        "Train/critic_gradient_norm",
        "Policy/mean_std",
        "Loss/critic",
        "Loss/actor",
        "Perf/replay_ingress_h2d_submit_ms",
        "Perf/learner_inference_forward_ms",
        "mine",
        "reward/alive",
        "Terminal/num_envs",
    ]
    shown = picture(update(1, dict.fromkeys(tags, 1.0)))
    assert [metric.label for metric in shown.losses] == ["Actor", "Critic"]
    assert [metric.label for metric in shown.policy] == ["Mean Std"]
    assert [metric.label for metric in shown.diagnostics] == ["Critic Grad Norm"]
    assert [metric.label for metric in shown.ingress] == ["Ingress Backpressure"]
    assert [metric.label for metric in shown.rewards.terms] == ["alive"]
    assert [metric.label for metric in shown.others] == ["mine"]


def test_mps_without_evidence_is_off_and_absent_where_it_means_nothing():
    off_policy = picture(update(1, {"Loss/actor": 1.0}))
    assert [(m.tag, m.reading.value) for m in off_policy.system] == [("Terminal/mps", 0.0)]
    on_policy = picture(update(1, {"Loss/value": 1.0}), at=head(0.0, run=RunInfo("ppo")))
    assert on_policy.system == ()


def test_a_tag_that_left_the_window_keeps_its_newest_value_and_shows_its_age():
    shown = picture(
        update(1, {"rare": 3.0, "x": 1.0}, sealed_s=1.0),
        update(2, {"x": 1.0}, sealed_s=11.0),
        at=head(11.0),
        age_s=0.5,
    )
    rare = next(metric.reading for metric in shown.others if metric.tag == "rare")
    assert rare[:2] == (3.0, pytest.approx(10.5))


def snapshot(update_sequence: int, **values: float) -> Snapshot:
    count = len(values)
    sequences = struct.pack(f"<{count}q", *[update_sequence] * count)
    return Snapshot(1, EPOCH, update_sequence, tuple(values), pack(values), sequences)


def test_a_late_viewer_has_every_tag_from_the_snapshot():
    series = Series()
    series.add(Batch((), head(50.0), snapshot(60, old=1.0, x=2.0), connected=True))
    assert reading(series.picture(), "old") == 1.0
    series.add(Batch((update(61, {"x": 5.0}),), connected=True))
    shown = series.picture()
    assert (reading(shown, "old"), reading(shown, "x")) == (1.0, 5.0)


@given(st.integers(1, 20), st.permutations(list(range(3))))
def test_the_higher_update_sequence_wins_over_the_snapshot(at: int, order: list[int]):
    series = Series()
    batches = [
        Batch((update(5, {"rare": 5.0}), update(6, {"x": 0.0}, sealed_s=50.0)), connected=True),
        Batch((), head(50.0), snapshot(at, rare=-1.0), connected=True),
        Batch((), head(50.0), connected=True),
    ]
    for index in order:
        series.add(batches[index])
    assert reading(series.picture(), "rare") == (-1.0 if at > 5 else 5.0)


# --- time --------------------------------------------------------------------------------


def test_eta_is_elapsed_per_iteration_times_what_remains():
    shown = picture(update(1, {"x": 1.0}, iteration=25, elapsed_s=50.0))
    assert (shown.elapsed_s, shown.eta_s) == (50.0, 150.0)


def test_an_on_policy_run_counts_from_zero():
    run = RunInfo("ppo", max_iterations=100)
    shown = picture(update(1, {"x": 1.0}, iteration=24, elapsed_s=50.0), at=head(0.0, run=run))
    assert shown.eta_s == 150.0


@pytest.mark.parametrize("iteration", [0, 100, 101])
def test_eta_is_finite_or_unknown_at_the_edges(iteration: int):
    eta_s = picture(update(1, {"x": 1.0}, iteration=iteration)).eta_s
    assert eta_s in (None, 0.0)


LIBRARIES = {
    "rollout/ep_rew_mean": ("rollout/ep_len_mean", "time/fps", "train/value_loss"),
    "charts/episodic_return": ("charts/episodic_length", "charts/SPS", "losses/value_loss"),
    "Train/mean_reward": ("Train/mean_episode_length", "Perf/total_fps", "Loss/value_function"),
    "rewards/iter": (
        "episode_lengths/iter", "performance/step_inference_rl_update_fps", "losses/a_loss",
    ),
    "Reward / Total reward (mean)": (
        "Episode / Total timesteps (mean)", None, "Loss / Policy loss",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reward", LIBRARIES)
def test_what_other_libraries_log_stands_where_it_belongs(reward: str):
    length, pace, loss = LIBRARIES[reward]
    values = {reward: 5.0, length: 60.0, loss: 0.5, **({} if pace is None else {pace: 7.0})}
    shown = picture(*(update(n, values | {reward: float(n)}) for n in range(1, 31)))
    assert shown.rewards.mean is not None
    assert (shown.rewards.tag, shown.rewards.peak, shown.rewards.trend) == (reward, 30.0, "rising")
    assert shown.episode_length == Reading(60.0)
    assert shown.steps_per_s == (None if pace is None else Reading(7.0))
    assert [metric.tag for metric in shown.losses] == [loss]
    assert list(shown.others) == []


def test_reward_terms_of_other_libraries_are_terms():
    values = {"Episode_Reward/alive": 1.0, "Episode/rew_torque": 2.0, "Episode_Other/a": 3.0}
    shown = picture(update(1, values))
    assert [metric.label for metric in shown.rewards.terms] == ["torque", "alive"]
    assert [metric.label for metric in shown.others] == ["Episode_Other/a"]


def test_the_contracts_name_counts_for_more_and_its_course_begins_anew():
    values = {"rollout/ep_rew_mean": 100.0, "charts/episodic_return": 200.0}
    assert picture(update(1, values)).rewards.peak == 100.0
    later = picture(
        update(1, values), update(2, {"Train/mean_reward": 1.0}), update(3, values),
        update(4, values | {"Train/mean_reward": 2.0}),
    )  # fmt: skip
    assert later.rewards.history == (1.0, 2.0)
    assert later.rewards.peak == 2.0
    others = {metric.tag: metric.label for metric in later.others}
    assert others == {tag: tag for tag in values}


def test_a_run_may_name_its_own_reward():
    values = {"Train/mean_reward": 1.0, "eval/return": 5.0}
    run = RunInfo("ppo", reward_tag="eval/return")
    shown = picture(update(1, values), at=head(0.0, run=run))
    assert (shown.rewards.tag, shown.rewards.peak) == ("eval/return", 5.0)
    absent = picture(update(1, {"Train/mean_reward": 1.0}), at=head(0.0, run=run))
    assert (absent.rewards.mean, absent.rewards.history) == (None, ())
    assert [metric.tag for metric in absent.diagnostics] == ["Train/mean_reward"]


@pytest.mark.parametrize("algorithm", ["", "ppo", "sac", "appo"])
def test_a_phase_of_ones_own_is_timed_and_no_other_metric(algorithm: str):
    values = {"Perf/iteration_time": 0.12, "Perf/learner_rollout_ms": 84.0, "mine": 1.0}
    shown = picture(update(1, values), at=head(0.0, run=RunInfo(algorithm)))
    assert shown.learner is not None
    assert [(row.label, row.ms) for row in shown.learner.rows] == [
        ("Rollout", 84.0), ("Other", pytest.approx(36.0)), ("Iter Wall", 120.0),
    ]  # fmt: skip
    assert [metric.tag for metric in shown.others] == ["mine"]
