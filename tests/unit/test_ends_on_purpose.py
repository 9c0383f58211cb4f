"""A training that somebody has stopped has not failed, and its readers still know its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sources_on_paper import PaperRun, two_learners

from unilab_metrics.aggregate.folding.entries import SourceGone
from unilab_metrics.aggregate.outcome import end_status, outcome_of
from unilab_metrics.publish.exiting import failure, status_of
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.run.past_runs import state_of
from unilab_metrics.run.summary import ended_in, is_told, summary_fields


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), "stopped"),
        (SystemExit(130), "stopped"),
        (SystemExit(143), "stopped"),
        (SystemExit(1), "failed"),
        (SystemExit("no such task"), "failed"),
        (SystemExit(["not", "hashable"]), "failed"),
        (RuntimeError("boom"), "failed"),
    ],
)
def test_ctrl_c_and_a_shells_codes_for_it_are_a_stop(error: BaseException, status: str) -> None:
    assert failure(error) is error
    assert status_of(error) == status


def killed(*endings: str) -> PaperRun:
    """Ranks that are gone without goodbye."""
    paper, *ranks = two_learners()
    for rank, ending in zip(ranks, endings, strict=True):
        paper.fold(rank.iteration(1, {"a": 1.0}))
        paper.fold(SourceGone(rank.index, "lost", 0, 0, "", ending))
    return paper


@pytest.mark.parametrize(
    ("endings", "status"),
    [
        (("SIGTERM", "SIGTERM"), "stopped"),
        (("SIGINT", "SIGTERM"), "stopped"),
        (("SIGTERM", "SIGKILL"), "failed"),
        (("SIGKILL", "SIGTERM"), "failed"),
        (("SIGTERM", "exit code 1"), "failed"),
        (("", ""), "failed"),
    ],
)
def test_ranks_that_were_told_to_end_were_stopped(endings: tuple[str, str], status: str) -> None:
    assert end_status(killed(*endings).state.data)[0] == status


@pytest.mark.parametrize("how", ["failed", "collector_died"])
def test_a_rank_that_its_launcher_ends_because_another_failed_is_no_stop(how: str) -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.end(how))
    paper.fold(SourceGone(one.index, "finished", 0, 0))
    paper.fold(SourceGone(zero.index, "lost", 0, 0, "", "SIGTERM"))
    assert end_status(paper.state.data)[0] == "failed"


def test_the_summary_has_a_status_that_its_readers_know_and_says_stopped_beside_it(
    tmp_path: Path,
) -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.end("stopped"))
    paper.fold(SourceGone(zero.index, "finished", 0, 0))
    outcome = outcome_of(paper.state, tmp_path, {}, {})
    fields = summary_fields(outcome)
    assert (outcome.status, fields["status"], fields["bus"]["ended"]) == (
        "stopped", "failed", "stopped",
    )  # fmt: skip
    assert fields["bus"]["sources"][0]["ended"] == "stopped"
    (tmp_path / "run_summary.json").write_text(json.dumps(fields))
    assert is_told(tmp_path, outcome)
    assert (ended_in(fields), state_of(tmp_path)) == ("stopped", "stopped")
    assert "Status         stopped" in report_lines(tmp_path, with_backends=False)


def test_the_summary_of_an_older_version_ended_as_its_status_says() -> None:
    assert ended_in({"status": "failed", "bus": {"attempt": 1}}) == "failed"
    assert ended_in({"status": "completed"}) == "completed"
