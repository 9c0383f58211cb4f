"""``run_summary.json`` keeps the names that its readers know."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sources_on_paper import PaperRun

from unilab_metrics.aggregate.folding.entries import AlertRules, Notice
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_metrics.outcome import MAX_OPEN_ALERTS, RunOutcome, SourceOutcome
from unilab_metrics.run.summary import read_summary, summary_fields, write_summary
from unilab_schema.identity import RunInfo, SourceKey, StepAxis

OUTCOME = RunOutcome(
    run=RunInfo(
        algorithm="sac", task="Toy", sim_backend="numpy", step_axis="env_steps", world_size=2
    ),
    run_dir=Path("/logs/sac/Toy/2026-03-09_18-30-00_numpy"),
    attempt=1,
    status="completed",
    started_unix_ns=1_700_000_000_000_000_000,
    ended_unix_ns=1_700_000_062_500_000_000,
    elapsed_s=60.25,
    updates=1510,
    iterations=1500,
    iterations_sealed=1500,
    env_steps=96_000,
    sources=(
        SourceOutcome(
            key=SourceKey(0, "learner"),
            pid=7,
            host="node",
            state="finished",
            frames=1500,
            lost=0,
            drops={"string": 2},
        ),
        SourceOutcome(
            key=SourceKey(0, "collector"),
            pid=8,
            host="node",
            state="lost",
            frames=400,
            lost=3,
            drops={"string": 1, "spool_full": 4},
            troubles={"key_refused": 2},
        ),
    ),
    summary={"final_mean_reward": 12.5, "best_mean_reward": math.nan, "status": "mine"},
    backends={"tensorboard": 1510},
    first_nonfinite={"Loss/actor": (12, 1)},
    alerts_raised=7,
    alerts_open=["NaN in Loss/actor"],
    alerts_open_count=1,
)


def test_the_trackers_keys_and_their_forms() -> None:
    fields = summary_fields(OUTCOME)
    assert fields["algo"] == "sac"
    assert fields["task"] == "Toy"
    assert fields["sim_backend"] == "numpy"
    assert fields["log_dir"] == "/logs/sac/Toy/2026-03-09_18-30-00_numpy"
    assert fields["start_time_utc"] == "2023-11-14T22:13:20+00:00"
    assert fields["end_time_utc"] == "2023-11-14T22:14:22.500000+00:00"
    assert fields["wall_time_sec"] == 62.5
    assert fields["wandb_run_url"] is None
    assert fields["metric_schema_version"] == 1
    assert fields["completed_iterations"] == 1500
    assert fields["total_env_steps"] == 96_000
    assert fields["training_wall_time_sec"] == 60.25


@pytest.mark.parametrize("set_by_s", [-3600, 3600])
def test_a_wall_clock_that_is_set_makes_a_run_neither_shorter_nor_longer(set_by_s: int) -> None:
    ended_unix_ns = OUTCOME.ended_unix_ns + set_by_s * 10**9
    was_set = replace(OUTCOME, ended_unix_ns=ended_unix_ns, lasted_s=61.5)
    assert summary_fields(was_set)["wall_time_sec"] == 61.5
    assert summary_fields(replace(OUTCOME, lasted_s=61.5))["wall_time_sec"] == 62.5


def test_how_long_an_attempt_was_is_told_by_the_clock_of_its_node() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, t=90_000))
    began_ns = zero.identity.started_mono_ns
    lasted_s = outcome_of(paper.state, Path("/run"), {}, {}).lasted_s
    assert lasted_s == pytest.approx(90 - began_ns / 1e9)
    paper.fold(zero.end(t=100_000))
    assert outcome_of(paper.state, Path("/run"), {}, {}).lasted_s == pytest.approx(
        100 - began_ns / 1e9
    )


def test_a_clock_of_another_node_makes_an_attempt_no_longer() -> None:
    paper = PaperRun()
    zero, far = paper.join(0, learners=2), paper.join(1, learners=2, boot="elsewhere")
    paper.fold(zero.iteration(1, {"a": 1.0}, t=90_000), far.iteration(1, {"a": 1.0}, t=900_000))
    lasted_s = outcome_of(paper.state, Path("/run"), {}, {}).lasted_s
    assert lasted_s == pytest.approx(90 - zero.identity.started_mono_ns / 1e9)


def test_the_producers_own_fields_stay_but_the_status_is_the_buss() -> None:
    fields = summary_fields(OUTCOME)
    assert fields["final_mean_reward"] == 12.5
    assert fields["best_mean_reward"] is None, "NaN is no JSON"
    assert fields["status"] == "completed"


def test_a_producer_knows_its_iterations_better() -> None:
    known = replace(OUTCOME, summary={"completed_iterations": 1499, "total_env_steps": 95_000})
    assert summary_fields(known)["completed_iterations"] == 1499
    assert summary_fields(known)["total_env_steps"] == 95_000


def test_on_policy_iterations_count_from_zero() -> None:
    on_policy = replace(
        OUTCOME,
        run=RunInfo(algorithm="ppo"),
        iterations=149,
        iterations_sealed=150,
        env_steps=None,
    )
    assert summary_fields(on_policy)["completed_iterations"] == 150
    assert "total_env_steps" not in summary_fields(on_policy), "nobody counted, so not 0"
    assert summary_fields(replace(OUTCOME, iterations=None))["completed_iterations"] == 0


def test_a_loop_that_counts_from_one_has_completed_what_it_counted() -> None:
    own_loop = replace(OUTCOME, run=RunInfo(algorithm="ppo"), iterations=200, iterations_sealed=200)
    assert summary_fields(own_loop)["completed_iterations"] == 200


def completed_of(
    iterations: Sequence[int], algorithm: str = "", axis: StepAxis = "iteration"
) -> int:
    """Of a run that logged these, one after the other."""
    paper = PaperRun(algorithm=algorithm, step_axis=axis)
    zero = paper.join(0)
    for k in iterations:
        paper.fold(zero.iteration(k, {"a": 1.0}, env_steps=64 * k))
        paper.settle(2_000)
    return summary_fields(outcome_of(paper.state, Path("/run"), {}, {}))["completed_iterations"]


@pytest.mark.parametrize("algorithm", ["", "ppo", "sac", "dqn"])
@pytest.mark.parametrize("axis", ["iteration", "env_steps", "wall_time"])
@pytest.mark.parametrize(
    ("iterations", "completed"),
    [
        (range(1, 11), 10),
        (range(10), 10),
        (range(10, 101, 10), 100),
        ([10, 20, 30], 30),
        (range(0, 100, 10), 91),
        ([1, 2, 3, 4, 5, 6, 2, 8], 8),
        ([0, 1, 2, 1, 5], 6),
        ([0], 1),
        ([1], 1),
        ([], 0),
    ],
)
def test_completed_is_what_the_loop_has_counted_however_rarely_it_logs(
    iterations: Sequence[int], completed: int, algorithm: str, axis: StepAxis
) -> None:
    assert completed_of(iterations, algorithm, axis) == completed


def test_a_run_that_went_on_elsewhere_counts_as_its_algorithms_loops_do() -> None:
    assert completed_of(range(100, 150), "ppo") == 150
    assert completed_of(range(100, 150), "sac", "env_steps") == 149
    assert completed_of(range(100, 150, 10), "ppo") == 140


def test_a_failed_run_says_why() -> None:
    failed = replace(OUTCOME, status="failed", text="ended without close(): learner of rank 0")
    assert summary_fields(failed)["status"] == "failed"
    assert summary_fields(failed)["error"] == "ended without close(): learner of rank 0"


def test_losses_are_counted_and_named() -> None:
    bus = summary_fields(OUTCOME)["bus"]
    assert bus["journaled_frames"] == 1900
    assert bus["lost_frames"] == 3
    assert bus["dropped_calls"] == {"string": 3, "spool_full": 4}
    assert bus["troubles"] == {"key_refused": 2}
    assert bus["backends"] == {"tensorboard": 1510}
    assert bus["first_nonfinite"] == {"Loss/actor": {"iteration": 12, "rank": 1}}
    assert [source["role"] for source in bus["sources"]] == ["learner", "collector"]
    assert bus["sources"][1]["dropped_calls"] == {"string": 1, "spool_full": 4}


def test_alerts_are_counted_over_all_attempts_and_the_newest_open_ones_are_told():
    assert summary_fields(OUTCOME)["bus"]["alerts"] == {
        "raised": 7,
        "open": 1,
        "open_texts": ["NaN in Loss/actor"],
    }
    paper = PaperRun()
    zero = paper.join(0)
    paper.state.handle(AlertRules((), 0, 0))
    for n in range(40):
        told = {"rule": "stalled", "subject": f"s{n}"}
        paper.state.handle(Notice("alert", f"s{n} has stalled", 0, 0, dict(told)))
    paper.state.handle(Notice("alert_over", "over", 0, 0, {"rule": "stalled", "subject": "s39"}))
    paper.fold(zero.iteration(1, {"a": math.nan}))
    paper.settle(2_000)
    outcome = outcome_of(paper.state, Path("/run"), {}, {})
    assert (outcome.alerts_raised, outcome.alerts_open_count) == (41, 40)
    assert len(outcome.alerts_open) == MAX_OPEN_ALERTS
    assert outcome.alerts_open[0] == "s24 has stalled"
    assert outcome.alerts_open[-1].startswith("NaN in a at iteration 1")


def test_the_file_is_strict_json_with_the_directorys_permissions(run_dir: Path) -> None:
    run_dir.chmod(0o750)
    write_summary(replace(OUTCOME, run_dir=run_dir))
    path = run_dir / "run_summary.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(path.read_text(), parse_constant=refuse) == read_summary(run_dir)
    assert [entry.name for entry in run_dir.iterdir()] == ["run_summary.json"]


def test_a_summary_that_cannot_be_read_is_none(run_dir: Path) -> None:
    assert read_summary(run_dir) is None
    (run_dir / "run_summary.json").write_bytes(b"\xff{")
    assert read_summary(run_dir) is None
    (run_dir / "run_summary.json").write_bytes(b"[1]")
    assert read_summary(run_dir) is None
