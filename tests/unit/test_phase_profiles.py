"""Which phases an algorithm has, what their tags are, and how spans become a value."""

from __future__ import annotations

import pytest

from unilab_schema.identity import COLLECTOR, LEARNER
from unilab_schema.metrics import CANONICAL
from unilab_schema.phases import (
    MAX_OWN,
    PhaseSpec,
    collector_rows,
    is_of_its_own,
    learner_slices,
)
from unilab_schema.timing import (
    collector_phases,
    family_of,
    find_phase,
    learner_other_ms,
    learner_phases,
    learner_timeline,
)

ALGORITHMS = ["sac", "fast_sac", "flash_sac", "appo", "ppo"]


def _names(phases: tuple[PhaseSpec, ...], *, exclusive: bool = True) -> list[str]:
    return [phase.label for phase in phases if phase.exclusive is exclusive]


@pytest.mark.parametrize("algorithm", ["sac", "fast_sac", "flash_sac", "FlashSAC", "FastSAC"])
def test_the_sac_family_has_six_exclusive_learner_phases(algorithm: str) -> None:
    assert _names(learner_phases(algorithm)) == [
        "Collector Wait",
        "Inference",
        "Collector Release",
        "Replay Batch Wait",
        "Replay Sample",
        "Learning",
    ]


def test_appo_has_five_exclusive_learner_phases_and_no_details() -> None:
    assert _names(learner_phases("appo")) == [
        "Collector Wait",
        "Replay Stage",
        "Replay Sample",
        "Learning",
        "Weight Publish",
    ]
    assert _names(learner_phases("appo"), exclusive=False) == []


def test_inference_details_and_h2d_submit_are_not_additive() -> None:
    assert _names(learner_phases("sac"), exclusive=False) == [
        "Inference H2D",
        "Inference Forward",
        "Inference D2H",
        "Replay H2D Submit",
    ]


def test_h2d_submit_is_the_last_span_and_all_else_of_a_learner_a_sum() -> None:
    for algorithm in ALGORITHMS:
        for phase in learner_phases(algorithm):
            last = phase.name == "replay_ingress_h2d_submit"
            assert phase.over_iteration == ("last" if last else "sum"), phase


def test_a_collector_of_the_sac_family_has_six_phases_in_this_order() -> None:
    assert _names(collector_phases("sac")) == [
        "Inference Request",
        "Learner Action Wait",
        "Env Step",
        "Transition Extract",
        "Replay Write",
        "Metrics Publish",
    ]
    assert [phase.label for phase in collector_phases("sac")][2:9] == [
        "Env Step",
        "Action Validate",
        "Apply Action",
        "Action+Backend",
        "Backend Step",
        "Update State",
        "Reset Done",
    ]


def test_env_step_details_do_not_pause_the_step() -> None:
    details = _names(collector_phases("sac"), exclusive=False)
    assert len(details) == 6
    assert {phase.over_iteration for phase in collector_phases("sac")} == {"mean"}


def test_an_appo_collector_reports_three_values() -> None:
    assert [phase.label for phase in collector_phases("appo")] == [
        "MLP Infer",
        "Env Step",
        "Rollout Wall",
    ]


def test_collection_time_never_occurs_in_the_sac_family() -> None:
    for algorithm in ("sac", "fast_sac", "flash_sac"):
        phases = learner_phases(algorithm) + collector_phases(algorithm)
        assert "Perf/collection_time" not in {phase.tag for phase in phases}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_phase_is_a_canonical_tag_in_its_unit(algorithm: str) -> None:
    for phase in learner_phases(algorithm) + collector_phases(algorithm):
        assert CANONICAL[phase.tag].unit == phase.unit


@pytest.mark.parametrize("algorithm", ["sac", "appo"])
def test_a_phase_and_its_tag_have_the_same_label(algorithm: str) -> None:
    for phase in learner_phases(algorithm) + collector_phases(algorithm):
        assert CANONICAL[phase.tag].label == phase.label


def test_nanoseconds_become_the_unit_of_the_tag() -> None:
    learning = find_phase(LEARNER, "learning", "sac")
    sample = find_phase(LEARNER, "replay_sample", "sac")
    assert learning is not None
    assert sample is not None
    assert (learning.tag, learning.from_ns(1_500_000)) == ("Perf/learning_time", 0.0015)
    assert (sample.tag, sample.from_ns(1_500_000)) == ("Perf/learner_replay_sample_ms", 1.5)
    assert learning.to_ms(0.0015) == sample.to_ms(1.5) == 1.5
    assert 1_500_000 * sample.scale == pytest.approx(1.5)


def test_a_phase_of_another_algorithm_is_not_found() -> None:
    assert find_phase(LEARNER, "replay_stage", "sac") is None
    assert find_phase(LEARNER, "weight_publish", "flash_sac") is None
    assert find_phase(LEARNER, "inference", "appo") is None
    assert find_phase(COLLECTOR, "mlp_infer", "sac") is None
    assert find_phase(COLLECTOR, "replay_write", "appo") is None


def test_a_phase_belongs_to_its_role() -> None:
    assert find_phase(COLLECTOR, "replay_sample", "sac") is None
    assert find_phase(LEARNER, "env_step", "sac") is None
    assert find_phase("evaluator", "env_step", "sac") is None


def test_an_algorithm_without_a_profile_may_use_any_phase_and_owes_none() -> None:
    assert family_of("td3") == "unknown"
    assert learner_phases("td3") == collector_phases("td3") == ()
    stage = find_phase(LEARNER, "replay_stage", "td3")
    write = find_phase(COLLECTOR, "replay_write", "")
    assert stage is not None
    assert write is not None
    assert stage.tag == "Perf/learner_replay_stage_ms"
    assert find_phase(LEARNER, "made_up", "td3") is None


@pytest.mark.parametrize("algorithm", ["", "trpo", "ppo", "sac", "flash_sac", "appo"])
def test_a_phase_of_ones_own_is_a_row_and_no_part_of_other(algorithm: str) -> None:
    values = {
        "Perf/iteration_time": 0.1,
        "Perf/learner_rollout_ms": 70.0,
        "Perf/learning_time": 0.02,
        "Perf/learner_inference_h2d_ms": 5.0,
    }
    timeline = learner_timeline(values, algorithm)
    assert [(row.label, row.ms) for row in timeline.rows] == [
        ("Learning", 20.0),
        ("Rollout", 70.0),
        ("Other", pytest.approx(10.0)),
        ("Iter Wall", 100.0),
    ]
    assert learner_other_ms(values, algorithm) == pytest.approx(10.0)


@pytest.mark.parametrize("algorithm", ["sac", "flash_sac", "appo"])
def test_what_is_known_is_no_phase_of_ones_own(algorithm: str) -> None:
    profile = tuple(phase for phase in learner_phases(algorithm) if phase.exclusive)
    known = {tag for tag in CANONICAL if tag.startswith("Perf/")}
    known |= {phase.tag for name in ALGORITHMS for phase in learner_phases(name)}
    known |= {"Perf/learner_other_ms", "Perf/learner_pipeline_ms", "Perf/learner_learning_pct"}
    # A part of a phase that a later release measures.
    known |= {"Perf/learner_replay_sample_gather_ms", "Perf/learner_collector_wait_idle_ms"}
    assert learner_slices(algorithm, known) == profile
    with_own = learner_slices(algorithm, [*known, "Perf/learner_train_ms"])
    assert [phase.label for phase in with_own] == [*(phase.label for phase in profile), "Train"]


def test_a_known_phase_of_another_algorithm_is_nobodys_own() -> None:
    there = [phase.tag for name in ALGORITHMS for phase in learner_phases(name)]
    assert learner_slices("ppo", there) == learner_phases("ppo")


def test_phases_of_ones_own_stand_in_the_order_in_which_they_were_first_logged() -> None:
    there = ["Perf/learner_warp_ms", "Loss/x", "Perf/learner_bake_ms", "Perf/learner_mix_ms"]
    own = [phase.name for phase in learner_slices("ppo", there)][len(learner_phases("ppo")) :]
    assert own == ["warp", "bake", "mix"]
    values = dict.fromkeys(there, 1.0)
    rows = [row.label for row in learner_timeline(values, "ppo").rows]
    assert rows[-5:-2] == ["Warp", "Bake", "Mix"]
    # A set has no order of its own, and would be another one in every process.
    by_name = [phase.name for phase in learner_slices("ppo", frozenset(there))]
    assert by_name[-3:] == ["bake", "mix", "warp"]


def test_thousands_of_phases_are_no_screen_of_rows() -> None:
    there = [f"Perf/learner_{n}_ms" for n in range(1000)]
    assert len(learner_slices("ppo", there)) == len(learner_phases("ppo")) + MAX_OWN


def test_what_a_collector_is_known_to_time_is_no_phase_of_ones_own() -> None:
    known = {tag for tag in CANONICAL if tag.startswith("Perf/")}
    known |= {phase.tag for name in ALGORITHMS for phase in collector_phases(name)}
    known |= {f"Perf/collector_{name}_ms" for name in ("cycle", "rollout", "inference_wait")}
    known |= {"Perf/collector_active_steps_per_sec", "Perf/collector__ms", "Perf/collector_ms"}
    for algorithm in ("sac", "flash_sac", "appo"):
        assert collector_rows(algorithm, known) == collector_phases(algorithm)
    assert collector_rows("ppo", known) == ()


def test_phases_of_a_collectors_own_are_last_but_for_parts_of_others() -> None:
    there = ["Perf/collector_pack_ms", "Perf/collector_env_step_render_ms", "Perf/collector_act_ms"]
    rows = collector_rows("sac", there)
    names = [phase.name for phase in rows]
    assert names[-2:] == ["pack", "act"]
    assert names[names.index("env_step_render") - 1] == "env_step_reset_done"
    assert not [phase for phase in rows if phase.exclusive and phase.tag in there]
    assert [p.name for p in rows if is_of_its_own(p, rows)] == ["pack", "act"]
    by_name = [phase.name for phase in collector_rows("sac", frozenset(there))]
    assert by_name[-2:] == ["act", "pack"]
    many = [f"Perf/collector_{n}_ms" for n in range(1000)]
    assert len(collector_rows("ppo", many)) == MAX_OWN


def test_without_a_profile_a_collectors_known_phases_are_rows_where_they_are_timed() -> None:
    there = ["Perf/collector_env_step_ms", "Perf/collector_mix_ms", "Perf/collection_time"]
    assert [phase.name for phase in collector_rows("td3", there)] == ["env_step", "mix"]
    assert collector_rows("td3", []) == ()
