"""Ranks that die, come back, come late, or come twice: named, and the numbers stay right."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from case_runs import ended, scalars, updates
from real_runs import fastest_s, until
from steered_ranks import SteeredRank, entries, iterations, steered, told

from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.updates import AttemptOpened

TAG = "Loss/value"


def close(*ranks: SteeredRank) -> None:
    """All at once, rank 0 last."""
    for rank in ranks:
        rank.tell("close 30")
    for rank in ranks:
        answer = rank.process.communicate(timeout=60)[0]
        assert answer.startswith("close True"), answer
        assert rank.process.returncode == 0


def reports(run_dir: Path, attempt: int | None = None) -> list[tuple[int, int, int, float]]:
    """Iteration, ranks reported and expected, and the mean."""
    return [
        (update.iteration, update.ranks_reported, update.ranks_expected, values[TAG])
        for update, values in updates(run_dir)
        if attempt in (None, update.attempt)
    ]


def test_a_killed_rank_is_named_a_new_one_takes_its_place_and_a_second_claim_is_refused(
    tmp_path: Path,
) -> None:
    """BR-51."""
    run_dir = tmp_path / "run"
    with steered(run_dir, 4) as ranks:
        zero, one, two, three = ranks
        for rank in ranks:
            rank.log(0, 5)
        until(lambda: len(iterations(run_dir)) == 6)
        two.kill()
        for rank in (zero, one, three):
            rank.log(6)
        until(lambda: len(iterations(run_dir)) == 7)
        update = iterations(run_dir)[-1]
        assert (update.iteration, update.missing_ranks) == (6, (2,))
        (text,) = told(run_dir, "lost")
        assert text.startswith(f"learner of rank 2 (pid {two.pid} on ")
        assert text.endswith(") was killed by SIGKILL")
        with SteeredRank(run_dir, 2, 4) as again, SteeredRank(run_dir, 1, 4) as double:
            again.ready().log(7)
            double.ready().log(0, 7, value=1000.0)
            for rank in (zero, one, three):
                rank.log(7)
            until(lambda: len(iterations(run_dir)) == 8)
            until(lambda: told(run_dir, "warning"))
            claim = f"pid {double.pid} on "
            owner = f"learner of rank 1 (pid {one.pid} on "
            (warning,) = told(run_dir, "warning")
            assert warning.startswith(claim)
            assert owner in warning
            until(lambda: "duplicate_rank" in double.do("eval publisher.errors"))
            answer = double.end("close 0.5")
            assert answer.startswith("False 10 unsent: these frames wait in ")
            assert owner in answer
            close(again, one, three, zero)
    expected = [(k, 4, 4, 1.5) for k in range(6)] + [
        (6, 3, 4, pytest.approx(4 / 3)),
        (7, 4, 4, 1.5),
    ]
    assert reports(run_dir) == expected
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == "completed"
    assert summary["bus"]["warnings"][warning] == 1
    states = {(s["pid"], s["state"], s["ending"]) for s in summary["bus"]["sources"]}
    assert (two.pid, "lost", "SIGKILL") in states
    assert (again.pid, "finished", "") in states
    log = (run_dir / "bus" / "aggregator.log").read_text()
    assert text in log
    assert warning in log
    assert [step for step, _ in scalars(run_dir)[TAG]] == list(range(8))


@pytest.mark.slow
def test_iterations_go_on_within_three_seconds_of_the_death_of_a_rank(tmp_path: Path) -> None:
    """BR-51: a window, of two seconds here, and one more."""
    run_dir = tmp_path / "run"
    with steered(run_dir, 4) as ranks:
        for rank in ranks:
            rank.log(0)
        until(lambda: len(iterations(run_dir)) == 1)

        def gone_on_s() -> float:
            dying = ranks.pop()
            killed_ns = time.monotonic_ns()
            dying.kill()
            for rank in ranks:
                rank.log(4 - len(ranks))
            until(lambda: len(iterations(run_dir)) == 5 - len(ranks))
            update = iterations(run_dir)[-1]
            assert dying.rank in update.missing_ranks
            # By the aggregator's own stamp: what this test takes to notice it does not count.
            return (update.sealed_mono_ns - killed_ns) / 1e9

        assert fastest_s(gone_on_s, 3.0, tries=3) < 3.0
        close(*reversed(ranks))


@pytest.mark.slow
def test_a_restart_at_an_older_step_is_an_attempt_that_a_stale_rank_does_not_touch(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 2) as (zero, stale):
        for rank in (zero, stale):
            rank.log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10)
        os.kill(stale.pid, signal.SIGSTOP)
        zero.kill()
        until(lambda: told(run_dir, "lost"))
        with steered(run_dir, 2) as (new_zero, new_one):
            for rank in (new_zero, new_one):
                rank.log(5, 8, value=7.0)
            until(lambda: len(iterations(run_dir, 2)) == 4)
            os.kill(stale.pid, signal.SIGCONT)
            stale.log(9, 12, value=1000.0)
            for rank in (new_zero, new_one):
                rank.log(9, 12, value=7.0)
            until(lambda: len(iterations(run_dir, 2)) == 8)
            (warning,) = told(run_dir, "warning")
            assert f"(pid {stale.pid} on " in warning
            assert "belongs to an earlier attempt" in warning
            stale.end("close 10")
            close(new_one, new_zero)
        ended(run_dir)
    assert reports(run_dir, 1) == [(k, 2, 2, 0.5) for k in range(10)]
    assert reports(run_dir, 2) == [(k, 2, 2, 7.0) for k in range(5, 13)]
    opened = [entry.attempt for entry in entries(run_dir) if isinstance(entry, AttemptOpened)]
    assert sorted(set(opened)) == [1, 2]
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["bus"]["attempt"]) == ("completed", 2)
    assert summary["bus"]["late_values"] == 4


@pytest.mark.slow
def test_a_restart_with_another_world_size_goes_on_in_the_same_run(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 2) as ranks:
        for rank in ranks:
            rank.log(0, 4)
        until(lambda: len(iterations(run_dir)) == 5)
        for rank in ranks:
            rank.kill()
    with steered(run_dir, 3) as ranks:
        for rank in ranks:
            rank.log(3, 6)
        # Rank 1 would wait for no more than 10 s for an aggregator that rank 0 must start.
        until(lambda: len(iterations(run_dir)) == 9, 60.0)
        close(*reversed(ranks))
    ended(run_dir)
    assert reports(run_dir) == [
        *((k, 2, 2, 0.5) for k in range(5)),
        *((k, 3, 3, 1.0) for k in range(3, 7)),
    ]
    assert told(run_dir, "warning") == []


@pytest.mark.slow
def test_a_rank_of_another_world_is_named(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 2) as zero, SteeredRank(run_dir, 1, 4) as one:
        for rank in (zero, one):
            rank.ready().log(0, 2)
        until(lambda: told(run_dir, "warning"))
        close(one, zero)
    ended(run_dir)
    (text,) = told(run_dir, "warning")
    assert text.startswith(f"learner of rank 1 (pid {one.pid} on ")
    assert text.endswith("was started for a world of 4 ranks, rank 0 for one of 2")


def until_known(run_dir: Path, rank: SteeredRank) -> None:
    with Subscriber.attach(run_dir) as viewer:

        def is_known() -> bool:
            viewer.poll(20)
            head = viewer.head
            return head is not None and any(source.pid == rank.pid for source in head.sources)

        until(is_known)


@pytest.mark.slow
def test_ranks_that_are_missing_from_the_start_are_named_and_one_that_comes_late_joins(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 3) as zero, SteeredRank(run_dir, 1, 3) as one:
        for rank in (zero, one):
            rank.ready().log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10, 60.0)
        (text,) = told(run_dir, "warning")
        assert text == "1 of 3 expected ranks have not come (2); iterations go on without them"
        with SteeredRank(run_dir, 2, 3) as late:
            late.ready().log(10, 14)
            # Who is not known yet is not waited for: its values would be a supplement.
            until_known(run_dir, late)
            for rank in (zero, one):
                rank.log(10, 14)
            until(lambda: len(iterations(run_dir)) == 15, 60.0)
            close(late, one, zero)
    ended(run_dir)
    assert reports(run_dir) == [
        *((k, 2, 3, 0.5) for k in range(10)),
        *((k, 3, 3, 1.0) for k in range(10, 15)),
    ]


@pytest.mark.slow
def test_a_rank_that_comes_again_is_taken_in_while_rank_0_waits_and_held_when_it_is_gone(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 3) as (zero, one, two):
        for rank in (zero, one, two):
            rank.log(0, 2)
        until(lambda: len(iterations(run_dir)) == 3)
        zero.tell("close 30")
        one.kill()
        until(lambda: told(run_dir, "lost"))
        with SteeredRank(run_dir, 1, 3) as again:
            again.ready().log(3, value=4.0)
            until_known(run_dir, again)
            two.log(3, value=2.0)
            until(lambda: len(iterations(run_dir)) == 4)
            again.kill()
            until(lambda: len(told(run_dir, "lost")) == 2)
        assert told(run_dir, "warning") == []
        zero.kill()
        with SteeredRank(run_dir, 1, 3) as late:
            late.ready().log(4, value=4.0)
            until(lambda: told(run_dir, "warning"))
            (warning,) = told(run_dir, "warning")
            assert warning.startswith(f"learner of rank 1 (pid {late.pid} on ")
            assert "is not taken in: rank 0 has said goodbye; what it logs waits in its " in warning
            assert "held: rank 0 has said goodbye" in late.do("eval publisher.errors")
            answer = late.end("close 0.5")
            assert answer.startswith("False 3 unsent: these frames wait in ")
            assert "`unilab-metrics recover " in answer
            close(two)
    until(lambda: read_summary(run_dir))
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["warnings"][warning] == 1
    assert reports(run_dir)[3:] == [(3, 2, 3, 3.0)]
    found = recover_run(run_dir, wait_s=10.0)
    assert [(taken.identity.pid, taken.lost) for taken in found.taken] == [(late.pid, 0)]
    assert reports(run_dir)[3:] == [(3, 2, 3, 3.0), (4, 1, 3, 4.0)]
