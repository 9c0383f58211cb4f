"""Phases: exclusive ones pause each other, details do not, and rows add up to the wall."""

from __future__ import annotations

import contextlib

import pytest

from unilab_metrics.publish.phases import PhaseClock
from unilab_metrics.publish.strict import PhaseNameError


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000

    def __call__(self) -> int:
        return self.ns

    def pass_ms(self, ms: float) -> None:
        self.ns += int(ms * 1e6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def learner(clock: Clock, algorithm: str = "sac") -> PhaseClock:
    return PhaseClock("learner", algorithm, now_ns=clock)


def collector(clock: Clock, algorithm: str = "sac") -> PhaseClock:
    return PhaseClock("collector", algorithm, now_ns=clock)


def present(values: dict[str, float]) -> dict[str, float]:
    return {tag: value for tag, value in values.items() if value}


def test_an_exclusive_phase_pauses_the_one_around_it(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("collector_wait"):
        clock.pass_ms(10)
        with phases.phase("inference"):
            clock.pass_ms(5)
        clock.pass_ms(2)
        with phases.phase("collector_release"):
            clock.pass_ms(1)
    assert present(phases.collect(clock())) == {
        "Perf/learner_collector_wait_ms": 12.0,
        "Perf/learner_inference_ms": 5.0,
        "Perf/learner_collector_release_ms": 1.0,
    }


def test_details_run_beside_their_phase(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("inference"):
        with phases.phase("inference_h2d"):
            clock.pass_ms(1)
        with phases.phase("inference_forward"):
            clock.pass_ms(3)
    assert present(phases.collect(clock())) == {
        "Perf/learner_inference_ms": 4.0,
        "Perf/learner_inference_h2d_ms": 1.0,
        "Perf/learner_inference_forward_ms": 3.0,
    }


def test_an_exclusive_phase_inside_a_detail_pauses_only_the_outer_phase(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("inference"), phases.phase("inference_h2d"):
        clock.pass_ms(1)
        with phases.phase("learning"):
            clock.pass_ms(10)
    values = phases.collect(clock())
    assert values["Perf/learner_inference_ms"] == 1.0
    assert values["Perf/learner_inference_h2d_ms"] == 11.0
    assert values["Perf/learning_time"] == 0.01


def test_a_learner_sums_over_the_iteration_and_starts_anew(clock: Clock) -> None:
    phases = learner(clock)
    for _ in range(3):
        with phases.phase("replay_sample"):
            clock.pass_ms(2)
    assert present(phases.collect(clock())) == {"Perf/learner_replay_sample_ms": 6.0}
    assert present(phases.collect(clock())) == {}


def test_the_h2d_submit_is_the_last_span_of_the_iteration(clock: Clock) -> None:
    phases = learner(clock)
    phases.add_ns("replay_ingress_h2d_submit", 5_000_000)
    phases.add_ns("replay_ingress_h2d_submit", 2_000_000)
    assert present(phases.collect(clock())) == {"Perf/replay_ingress_h2d_submit_ms": 2.0}


def test_phases_of_the_profile_that_did_not_happen_are_zero_once_any_was_used(
    clock: Clock,
) -> None:
    phases = learner(clock)
    assert phases.collect(clock()) == {}
    with phases.phase("learning"):
        clock.pass_ms(1)
    values = phases.collect(clock())
    assert values["Perf/learner_replay_batch_wait_ms"] == 0.0
    assert "Perf/learner_inference_h2d_ms" not in values
    assert "Perf/learner_replay_stage_ms" not in values
    assert "Perf/learner_weight_publish_ms" not in values
    assert set(phases.collect(clock())) == set(values)


def test_a_running_phase_is_split_at_the_report(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("learning"):
        clock.pass_ms(4)
        first = phases.collect(clock())
        clock.pass_ms(6)
    assert first["Perf/learning_time"] == 0.004
    assert phases.collect(clock())["Perf/learning_time"] == 0.006


def test_time_before_the_iteration_is_not_part_of_it(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("learning"):
        clock.pass_ms(50)
        phases.collect(clock())
        clock.pass_ms(20)
        phases.start_iteration()
        clock.pass_ms(1)
    with phases.phase("learning"):
        clock.pass_ms(7)
    assert phases.collect(clock())["Perf/learning_time"] == 0.008


def test_of_iterations_that_are_reported_as_one_phases_and_details_are_means(
    clock: Clock,
) -> None:
    phases = learner(clock)
    for _ in range(2):
        clock.pass_ms(50)
        with phases.phase("inference"):
            clock.pass_ms(50)
        for inference_ms in (1, 2, 6):
            phases.start_iteration()
            with phases.phase("inference"), phases.phase("inference_h2d"):
                clock.pass_ms(inference_ms)
        values = phases.collect(clock())
        assert values["Perf/learner_inference_ms"] == 3.0
        assert values["Perf/learner_inference_h2d_ms"] == 3.0


def test_a_collector_reports_the_mean_per_tick(clock: Clock) -> None:
    phases = collector(clock)
    for _ in range(4):
        with phases.phase("env_step"):
            clock.pass_ms(3)
            with phases.phase("env_step_backend"):
                clock.pass_ms(2)
        phases.tick()
    with phases.phase("metrics_publish"):
        clock.pass_ms(2)
    assert phases.collect(clock()) == {
        "Perf/collector_env_step_ms": 5.0,
        "Perf/collector_env_step_backend_ms": 2.0,
        "Perf/collector_metrics_publish_ms": 0.5,
    }
    assert phases.collect(clock()) == {}


def test_without_ticks_a_collector_reports_the_mean_per_occurrence(clock: Clock) -> None:
    phases = collector(clock)
    for ms in (1, 3):
        with phases.phase("replay_write"):
            clock.pass_ms(ms)
    assert phases.collect(clock()) == {"Perf/collector_replay_write_ms": 2.0}


def test_an_appo_rollout_does_not_pause_for_its_steps(clock: Clock) -> None:
    phases = collector(clock, "appo")
    with phases.phase("rollout"):
        for _ in range(2):
            with phases.phase("mlp_infer"):
                clock.pass_ms(1)
            with phases.phase("env_step"):
                clock.pass_ms(4)
            phases.tick()
    assert phases.collect(clock()) == {
        "Perf/collection_time": 0.01,
        "Perf/collector_mlp_infer_ms": 1.0,
        "Perf/collector_env_step_ms": 4.0,
    }


def test_strict_mode_refuses_a_phase_of_another_algorithm(clock: Clock) -> None:
    phases = learner(clock)
    with pytest.raises(PhaseNameError, match="weight_publish"):
        phases.phase("weight_publish", strict=True)
    with pytest.raises(ValueError, match="env_step"):
        phases.add_ns("env_step", 1, strict=True)


@pytest.mark.parametrize(
    ("role", "algorithm", "name", "text"),
    [
        ("learner", "ppo", "rollout", "of a learner of ppo; it has collection, learning"),
        ("collector", "appo", "x", "of a collector of appo; it has mlp_infer, env_step, rollout"),
        ("collector", "ppo", "env_step", "of a collector of ppo; it has none"),
        ("player", "ppo", "move", "of a player of ppo; it has none"),
        ("learner", "", "x", "of a learner of no algorithm; it has collector_wait, inference, "),
    ],
)
def test_who_asks_for_no_phase_is_told_which_there_are(
    role: str, algorithm: str, name: str, text: str, clock: Clock
) -> None:
    phases = PhaseClock(role, algorithm, now_ns=clock)
    with pytest.raises(PhaseNameError, match=f"'{name}' is no phase {text}"):
        phases.phase(name, strict=True)


def test_a_phase_that_is_not_measured_is_named_once(clock: Clock) -> None:
    told: list[tuple[str, str]] = []
    phases = PhaseClock("learner", "ppo", now_ns=clock, tell=lambda *both: told.append(both))
    for _ in range(2):
        with phases.phase("weight_publish"):
            clock.pass_ms(1)
    text = "not measured, no phase of a learner of ppo; it has collection, learning"
    assert told == [("weight_publish", text)]


def test_a_loop_with_phases_of_its_own_has_no_zeros_for_what_it_never_measures(
    clock: Clock,
) -> None:
    phases = PhaseClock("learner", "ppo", now_ns=clock)
    for name in ("rollout", "learning"):
        with phases.phase(name):
            clock.pass_ms(2)
    assert phases.collect(clock()) == {"Perf/learner_rollout_ms": 2.0, "Perf/learning_time": 0.002}
    with phases.phase("rollout"):
        clock.pass_ms(3)
    assert phases.collect(clock()) == {"Perf/learner_rollout_ms": 3.0, "Perf/learning_time": 0.0}


def test_open_mode_never_reports_a_phase_of_another_algorithm(clock: Clock) -> None:
    phases = learner(clock)
    with phases.phase("weight_publish"):
        clock.pass_ms(1)
    phases.add_ns("weight_publish", 1_000_000)
    assert phases.collect(clock()) == {}


@pytest.mark.parametrize(
    ("role", "tag", "value"),
    [
        ("learner", "Perf/learner_checkpoint_ms", 4.0),
        ("collector", "Perf/collector_checkpoint_ms", 2.0),
        ("evaluator", "Perf/evaluator_checkpoint_ms", 2.0),
    ],
)
def test_an_unlisted_phase_gets_a_tag_of_its_role(
    clock: Clock, role: str, tag: str, value: float
) -> None:
    phases = PhaseClock(role, "", now_ns=clock)
    for _ in range(2):
        with phases.phase("checkpoint"):
            clock.pass_ms(2)
    assert phases.collect(clock()) == {tag: value}


def test_a_phase_ends_with_an_exception(clock: Clock) -> None:
    phases = learner(clock)
    with contextlib.suppress(KeyError), phases.phase("collector_wait"), phases.phase("inference"):
        clock.pass_ms(1)
        raise KeyError
    clock.pass_ms(5)
    assert present(phases.collect(clock())) == {"Perf/learner_inference_ms": 1.0}


def test_slices_of_a_loop_never_exceed_its_wall(clock: Clock) -> None:
    phases = learner(clock)
    start = clock()
    phases.start_iteration()
    with phases.phase("collector_wait"):
        clock.pass_ms(1.25)
        with phases.phase("inference"), phases.phase("inference_d2h"):
            clock.pass_ms(0.5)
            with phases.phase("collector_wait"):
                clock.pass_ms(0.25)
    with phases.phase("learning"):
        clock.pass_ms(3)
    values = phases.collect(clock())
    slices = {tag: v for tag, v in values.items() if "d2h" not in tag}
    accounted_ms = sum(v * 1e3 if tag.endswith("_time") else v for tag, v in slices.items())
    assert accounted_ms == pytest.approx((clock() - start) / 1e6)
