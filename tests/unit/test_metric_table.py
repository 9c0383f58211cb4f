"""The canonical table against the checklist of right values, and the rules of open tags."""

from __future__ import annotations

import pytest

from unilab_schema.metrics import (
    CANONICAL,
    FAMILIES,
    METRIC_SCHEMA_VERSION,
    TERMINAL_ONLY,
    MetricSpec,
    MetricTable,
)

INGRESS = {
    f"Train/replay_ingress_{name}"
    for name in ("depth", "occupancy", "high_water", "backpressure_wait_ms", "dropped_batches")
}


def test_schema_version_1_has_68_tags() -> None:
    assert METRIC_SCHEMA_VERSION == 1
    assert len(CANONICAL) == 68
    assert all(tag == spec.tag for tag, spec in CANONICAL.items())


def test_names_that_end_in_ms_are_milliseconds() -> None:
    for tag, spec in CANONICAL.items():
        assert (spec.unit == "ms") == tag.endswith(("_ms", "_ms_per_rank")), tag


def test_the_three_walls_are_seconds() -> None:
    assert {tag for tag, spec in CANONICAL.items() if spec.unit == "s"} == {
        "Perf/iteration_time",
        "Perf/learning_time",
        "Perf/collection_time",
    }


def test_sums_over_ranks_are_totals_and_rates_only() -> None:
    assert {tag for tag, spec in CANONICAL.items() if spec.over_ranks == "sum"} == INGRESS | {
        "Perf/total_fps",
        "Train/ring_available_slots",
        "Train/rollouts_read",
    }


def test_iteration_is_rank_0s_and_all_else_a_mean() -> None:
    assert CANONICAL["Train/iteration"].over_ranks == "rank0"
    others = {spec.over_ranks for tag, spec in CANONICAL.items() if tag != "Train/iteration"}
    assert others == {"mean", "sum"}


def test_maxima_of_the_inference_gauges_are_maxima_over_time() -> None:
    assert {tag for tag, spec in CANONICAL.items() if spec.over_time == "max"} == {
        f"Perf/collector_inference_max_{name}"
        for name in ("action_backlog", "in_flight", "publication_lag")
    }
    assert {spec.over_time for spec in CANONICAL.values()} == {"last", "max"}


def test_inference_gauges_are_means_over_ranks() -> None:
    gauges = [tag for tag in CANONICAL if tag.startswith("Perf/collector_inference_")]
    assert len(gauges) == 8  # seven gauges and the request phase
    assert {CANONICAL[tag].over_ranks for tag in gauges} == {"mean"}


def test_the_logger_owns_what_it_assembles() -> None:
    owned = {tag for tag, spec in CANONICAL.items() if spec.logger_owned}
    collector = {tag for tag in CANONICAL if tag.startswith("Perf/collector_")}
    assert owned == collector | {
        "Train/iteration",
        "Train/mean_reward",
        "Train/mean_episode_length",
        "Episode/timeout_rate",
        "Perf/total_fps",
        "Perf/iteration_time",
        "Perf/collection_time",
        "Perf/learning_time",
    }


def test_every_canonical_tag_is_persisted_described_and_labelled() -> None:
    for tag, spec in CANONICAL.items():
        assert spec.persisted, tag
        assert spec.description.endswith("."), tag
        assert spec.label, tag
        assert spec.unit, tag


@pytest.mark.parametrize(
    "retired",
    [
        "Episode_Reward/alive",
        "Perf/collector_active_steps_per_sec",
        "Perf/collector_cycle_ms",
        "Perf/effective_samples_per_sec",
        "Perf/learner_learning_pct",
        "Perf/learner_other_ms",
        "Perf/learner_pipeline_ms",
        "Perf/learner_samples_per_sec",
    ],
)
def test_retired_and_derived_names_are_not_registered(retired: str) -> None:
    assert MetricTable().spec(retired) is None
    assert MetricTable().check(retired, strict=True)


def test_what_only_a_terminal_shows_is_never_persisted() -> None:
    assert {tag: spec.over_ranks for tag, spec in TERMINAL_ONLY.items()} == {
        "Terminal/replay_rows_per_s": "sum",
        "Terminal/buffer_size": "sum",
        "Terminal/buffer_capacity": "sum",
        "Terminal/num_envs": "sum",
        "Terminal/batch_per_rank": "mean",
        "Terminal/mps": "rank0",
    }
    assert not any(spec.persisted for spec in TERMINAL_ONLY.values())
    assert not TERMINAL_ONLY.keys() & CANONICAL.keys()


def test_labels_are_the_documents() -> None:
    labels = {tag: CANONICAL[tag].label for tag in CANONICAL}
    assert labels["Loss/surrogate"] == "Surrogate"
    assert labels["Loss/value"] == "Value"
    assert labels["Loss/entropy"] == "Entropy"
    assert labels["Loss/actor"] == "Actor"
    assert labels["Loss/critic"] == "Critic"
    assert labels["Loss/temperature"] == "Temperature"
    assert labels["Loss/learning_rate"] == "Learning Rate"
    assert labels["Policy/mean_std"] == "Mean Std"
    assert labels["Train/global_gradient_norm"] == "Global Grad Norm"
    assert labels["Train/actor_gradient_norm"] == "Actor Grad Norm"
    assert labels["Train/critic_gradient_norm"] == "Critic Grad Norm"
    assert labels["Train/target_q_max"] == "Target Q Max"
    assert labels["Train/target_q_min"] == "Target Q Min"
    assert labels["Train/reward_scale_std"] == "Reward Scale Std"
    assert labels["Train/ring_available_slots"] == "Ring Slots"
    assert labels["Train/rollouts_read"] == "Rollouts Read"
    assert labels["Train/approx_kl"] == "Approx KL"
    assert labels["Train/clip_fraction"] == "Clip Fraction"
    assert labels["Train/behavior_to_current_log_prob_delta"] == "LogProb Delta"
    assert labels["Train/vtrace_rho_clip_fraction"] == "VTrace Rho Clip"
    assert labels["Train/vtrace_rho_p99"] == "VTrace Rho p99"
    assert labels["Train/replay_ingress_depth"] == "Ingress Depth"
    assert labels["Train/replay_ingress_occupancy"] == "Ingress Occupancy"
    assert labels["Train/replay_ingress_high_water"] == "Ingress High Water"
    assert labels["Train/replay_ingress_backpressure_wait_ms"] == "Ingress Backpressure"
    assert labels["Train/replay_ingress_dropped_batches"] == "Ingress Drops"
    assert "Inference Wait" not in labels.values()
    assert TERMINAL_ONLY["Terminal/buffer_size"].label == "Buffer"
    assert TERMINAL_ONLY["Terminal/num_envs"].label == "Envs"
    assert TERMINAL_ONLY["Terminal/batch_per_rank"].label == "Batch/Rank"
    assert TERMINAL_ONLY["Terminal/mps"].label == "CUDA MPS"


def test_no_two_tags_share_a_label() -> None:
    labels = [spec.label for spec in (*CANONICAL.values(), *TERMINAL_ONLY.values())]
    assert len(labels) == len(set(labels))


def test_reward_terms_are_means_over_time_and_ranks() -> None:
    spec = MetricTable().reduction("reward/alive")
    assert (spec.over_time, spec.over_ranks) == ("mean", "mean")


def test_terminations_are_counts_and_sums() -> None:
    spec = MetricTable().reduction("Episode_Termination/fell/over")
    assert (spec.over_time, spec.over_ranks) == ("sum", "sum")
    assert MetricTable().check("Episode_Termination/fell", strict=True) is None


def test_auxiliary_losses_are_a_family_and_other_losses_are_not() -> None:
    table = MetricTable()
    assert table.spec("Loss/aux_contrastive") is not None
    assert table.spec("Loss/aux_") is None
    assert table.spec("Loss/other") is None


@pytest.mark.parametrize("tag", ["", "  ", "reward/", "reward/mean", "reward/mean_ep100"])
@pytest.mark.parametrize("strict", [True, False])
def test_reserved_and_empty_names_are_refused_in_every_mode(tag: str, strict: bool) -> None:
    table = MetricTable()
    assert table.check(tag, strict=strict)
    assert table.spec(tag) is None
    with pytest.raises(ValueError, match=r"reserved|empty"):
        table.define(MetricSpec(tag, "user", ""))


def test_strict_mode_names_what_it_refuses() -> None:
    table = MetricTable()
    assert "not registered" in (table.check("My/tag", strict=True) or "")
    assert "assembled by the logger" in (table.check("Train/mean_reward", strict=True) or "")
    assert table.check("Loss/actor", strict=True) is None
    assert table.check("reward/alive", strict=True) is None
    assert table.check("Terminal/num_envs", strict=True) is None


def test_open_mode_takes_any_name_as_mean_and_last() -> None:
    table = MetricTable()
    for tag in ("My/tag", "Train/mean_reward", "Episode / Total timesteps (mean)", "/lead", "*"):
        assert table.check(tag, strict=False) is None
    assert table.reduction("My/tag") == MetricSpec("My/tag", "user", "")
    assert table.spec("My/tag") is None


def test_a_definition_registers_its_tags() -> None:
    mine = MetricSpec("my/*_total", "user", "m", "sum", "max")
    table = MetricTable([mine])
    assert table.spec("my/way_total") is mine
    assert table.spec("my/_total") is None
    assert table.spec("my/way") is None
    assert table.check("my/way_total", strict=True) is None


def test_a_definition_counts_for_tags_that_were_asked_for_before() -> None:
    table = MetricTable()
    assert table.reduction("my/way").over_ranks == "mean"
    table.define(MetricSpec("my/*", "user", "", "sum"))
    assert table.reduction("my/way").over_ranks == "sum"


def test_the_more_specific_definition_wins_and_the_newest_of_equals() -> None:
    wide = MetricSpec("*", "user", "", "min")
    narrow = MetricSpec("my/*", "user", "", "max")
    exact = MetricSpec("my/way", "user", "", "sum")
    for order in ((wide, narrow, exact), (exact, narrow, wide)):
        table = MetricTable(order)
        assert table.spec("your/way") is wide
        assert table.spec("my/road") is narrow
        assert table.spec("my/way") is exact
    renewed = MetricSpec("my/*", "user", "", "rank0")
    rival = MetricSpec("*/ro", "user", "", "sum")
    table = MetricTable([narrow, rival])
    assert table.spec("my/ro") is rival
    table.define(renewed)
    assert table.spec("my/ro") is renewed


@pytest.mark.parametrize(
    "tag", ["Loss/actor", "Terminal/mps", "reward/*", "reward/alive", "reward/a*", "Loss/aux_x"]
)
def test_what_the_schema_means_cannot_be_redefined(tag: str) -> None:
    with pytest.raises(ValueError, match="cannot be redefined"):
        MetricTable().define(MetricSpec(tag, "user", "", "max"))


def test_a_wide_definition_leaves_the_canonical_table_alone() -> None:
    table = MetricTable([MetricSpec("*", "user", "", "max")])
    assert table.spec("Loss/actor") is CANONICAL["Loss/actor"]
    assert table.spec("reward/alive") is FAMILIES[0]
    assert table.spec("reward/mean") is None


def test_a_pattern_has_one_star() -> None:
    with pytest.raises(ValueError, match="one '\\*'"):
        MetricTable().define(MetricSpec("a/*/b/*", "user", ""))


def test_invented_names_do_not_fill_the_memory() -> None:
    table = MetricTable()
    for number in range(20_000):
        table.spec(f"invented/{number}")
    assert len(table._remembered) <= 8192
    assert table.spec("Loss/actor") is CANONICAL["Loss/actor"]


def test_a_tag_without_a_label_is_shown_by_what_tells_it_apart() -> None:
    table = MetricTable([MetricSpec("my/*", "user", "", label="Mine")])
    assert table.label("reward/feet/air_time") == "feet/air_time"
    assert table.label("Loss/actor") == "Actor"
    assert table.label("my/way") == "Mine"
    assert table.label("other/way") == "way"
    assert table.label("way/") == "way/"
