"""Ranks that fail or fall behind while others go on: alerts, totals, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sources_on_paper import PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.alerting import failures
from unilab_metrics.aggregate.alerting.falling_behind import FallingBehind
from unilab_metrics.aggregate.folding.entries import SourceGone
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.run.losses import count_lost
from unilab_metrics.run.past_runs import lost_of
from unilab_metrics.run.summary import summary_fields
from unilab_schema.frames import EventFrame

NOBODY: frozenset[str] = frozenset()


def failing(paper: PaperRun, source: PaperSource) -> None:
    place = source.identity.key.place
    told = EventFrame("status", f"{place} failed: RuntimeError: boom", 0, 0)
    paper.fold(source.batch(told), source.end("failed"))
    paper.fold(SourceGone(source.index, "finished", 0, 0))


def looked(paper: PaperRun, opened: frozenset[str] = NOBODY) -> list[tuple[str, bool, str]]:
    data = paper.state.data
    changes = failures.look(data.sources, data.attempt, opened)
    return [(change.subject, change.began, change.text) for change in changes]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_failed_while_another_goes_on_is_an_alert_once(rank: int) -> None:
    paper, *ranks = two_learners()
    assert looked(paper) == []
    failing(paper, ranks[rank])
    subject = f"learner of rank {rank} (pid {100 + rank} on host)"
    text = f"learner of rank {rank} failed: RuntimeError: boom"
    assert looked(paper) == [(subject, True, text)]
    assert looked(paper, frozenset({subject})) == []
    status = source_status(paper.state.data.sources[rank], Peer(), 0)
    assert (status.state, status.ended) == ("finished", "failed")


def test_a_rank_that_completed_or_was_stopped_and_one_that_fails_last_are_none() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.end("completed"))
    assert looked(paper) == []
    failing(paper, one)
    assert looked(paper) == [], "the end of the run says it"
    paper, zero, one = two_learners()
    paper.fold(zero.end("stopped"))
    assert looked(paper) == []


@pytest.mark.parametrize("changed", [{"attempt": 7}, {"is_double": True}])
def test_who_failed_in_an_earlier_attempt_or_beside_another_is_none(
    changed: dict[str, Any],
) -> None:
    paper, _, one = two_learners()
    failing(paper, one)
    for name, value in changed.items():
        setattr(paper.state.data.sources[one.index], name, value)
    assert looked(paper) == []


def test_the_alert_ends_when_another_process_has_the_place() -> None:
    paper, _, one = two_learners()
    failing(paper, one)
    subject = paper.state.data.sources[one.index].name
    paper.join(1, learners=2, started=50)
    ((gone, began, _),) = looked(paper, frozenset({subject}))
    assert (gone, began) == (subject, False)


def slow(paper: PaperRun, ranks: tuple[PaperSource, PaperSource], iterations: int = 4) -> None:
    """Rank 0 logs them all; they are sealed at the deadline, without rank 1."""
    for k in range(1, iterations + 1):
        paper.fold(ranks[0].iteration(k, {"a": 1.0}, t=1000 * k, env_steps=100 * k))
    wait(paper)


def wait(paper: PaperRun) -> None:
    """Longer than anybody is waited for."""
    paper.settle()
    paper.settle(31_000)


def test_a_rank_so_far_behind_that_its_values_come_late_is_an_alert_until_it_keeps_up() -> None:
    paper, zero, one = two_learners()
    slow(paper, (zero, one))
    behind, data = FallingBehind(), paper.state.data
    opened: list[str] = []

    def look(*names: str) -> list[tuple[bool, str]]:
        changes = behind.look(
            paper.state.live_learners(), data.last_iteration, frozenset(names or opened)
        )
        opened.extend(change.subject for change in changes if change.began)
        return [(change.began, change.text) for change in changes]

    assert look() == []
    paper.fold(one.iteration(1, {"a": 3.0}, t=30_000, env_steps=100))
    wait(paper)
    assert look() == [], "one late iteration may be a single pause"
    paper.fold(one.iteration(2, {"a": 3.0}, t=31_000, env_steps=200))
    wait(paper)
    ((began, text),) = look()
    assert began
    assert text.startswith("learner of rank 1 is 2 iterations behind: its values come late")
    paper.fold(one.iteration(3, {"a": 3.0}, t=32_000), one.iteration(4, {"a": 3.0}, t=33_000))
    wait(paper)
    assert look() == [(False, "learner of rank 1 keeps up again")]


def test_looks_at_which_values_came_late_count_anew_once_the_rank_has_kept_up() -> None:
    paper, _, one = two_learners()
    source = paper.state.data.sources[one.index]
    behind = FallingBehind()

    def look(late_values: int, reached: int, *opened: str) -> list[bool]:
        source.late_values, source.last_iteration = late_values, reached
        return [change.began for change in behind.look([source], 10, frozenset(opened))]

    assert look(0, 5) == look(1, 6) == look(1, 10) == look(2, 8) == []
    assert look(3, 9) == [True]
    assert look(4, 9, source.name) == []
    # Somebody ended it, and another has its place or nobody.
    (over,) = behind.look([], 10, frozenset({source.name}))
    assert (over.subject, over.began) == (source.name, False)


def test_a_second_call_for_a_sealed_iteration_is_no_falling_behind() -> None:
    paper, zero, one = two_learners()
    behind = FallingBehind()
    for k in range(1, 6):
        paper.fold(zero.iteration(k, {"a": 1.0}, t=k), one.iteration(k, {"a": 1.0}, t=k))
        paper.settle(2_000)
        paper.fold(one.iteration(k, {"a": 2.0}, t=k))
        paper.settle(2_000)
        data = paper.state.data
        assert behind.look(paper.state.live_learners(), data.last_iteration, NOBODY) == []
    assert data.late_values >= 4


def test_late_iterations_count_for_the_totals_and_the_report_names_them(tmp_path: Path) -> None:
    paper, zero, one = two_learners()
    slow(paper, (zero, one))
    for k in range(1, 5):
        paper.fold(one.iteration(k, {"a": 3.0}, t=20_000 * k, env_steps=100 * k))
    wait(paper)
    outcome = outcome_of(paper.state, tmp_path, {}, {})
    assert outcome.env_steps == 800
    assert outcome.elapsed_s == 80.0
    assert (outcome.late_values, [s.late_values for s in outcome.sources]) == (4, [0, 4])
    fields = summary_fields(outcome)
    assert (fields["total_env_steps"], fields["training_wall_time_sec"]) == (800, 80.0)
    (tmp_path / "run_summary.json").write_text(json.dumps(fields))
    late = "Late           4 values of rank 1: in the journal, not in the backends"
    assert late in report_lines(tmp_path, with_backends=False)


def lost_on_the_way(run_dir: Path, status: str) -> list[str]:
    """The report of a run whose rank 1 is killed while rank 0 trains on."""
    paper, zero, one = two_learners()
    for k in range(1, 8):
        paper.fold(zero.iteration(k, {"a": 1.0}, t=k), one.iteration(k, {"a": 1.0}, t=k))
    paper.fold(SourceGone(one.index, "lost", 0, 0, "", "SIGKILL"))
    paper.fold(zero.iteration(8, {"a": 1.0}, t=8), zero.end(status))
    fields = summary_fields(outcome_of(paper.state, run_dir, {}, {}))
    (run_dir / "run_summary.json").write_text(json.dumps(fields))
    return report_lines(run_dir, with_backends=False)


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_who_was_killed_while_others_went_on_is_named_after_the_end(
    status: str, tmp_path: Path
) -> None:
    lines = lost_on_the_way(tmp_path, status)
    assert f"Status         {status}" in lines
    assert "Lost           learner of rank 1: was killed by SIGKILL at iteration 7" in lines
    assert lost_of(tmp_path) == "1 process lost"


def test_who_was_told_to_end_with_a_run_that_was_stopped_is_not_lost() -> None:
    sources = [{"state": "lost", "ending": ending, "ended": ""} for ending in ("SIGINT", "")]
    for ended, count in (("stopped", 1), ("failed", 2)):
        assert count_lost({"bus": {"ended": ended, "sources": sources}}) == count


def test_a_run_without_late_values_says_nothing_of_them_and_names_who_failed(
    tmp_path: Path,
) -> None:
    paper, zero, one = two_learners()
    failing(paper, one)
    paper.fold(zero.iteration(1, {"a": 1.0}, t=5), zero.end("completed"))
    fields = summary_fields(outcome_of(paper.state, tmp_path, {}, {}))
    (tmp_path / "run_summary.json").write_text(json.dumps(fields))
    lines = report_lines(tmp_path, with_backends=False)
    assert "Status         completed" in lines
    assert "Failed         learner of rank 1" in lines
    assert not any(line.startswith("Late") for line in lines)


def test_a_summary_that_somebody_else_has_put_there_breaks_no_report(tmp_path: Path) -> None:
    odd = {"rank": None, "ended": ["failed"], "late_values": 3, "state": 7, "ending": {}}
    summary = {"status": "completed", "bus": {"late_values": 3, "sources": [odd, {"rank": "1"}]}}
    (tmp_path / "run_summary.json").write_text(json.dumps(summary))
    lines = report_lines(tmp_path, with_backends=False)
    assert "Late           3 values: in the journal, not in the backends" in lines
    assert not any(line.startswith(("Failed", "Lost")) for line in lines)
