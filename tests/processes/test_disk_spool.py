"""The spool on a file system that is too small, limited, or taken away under the training."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from case_runs import aggregator_pid, leftovers, run, updates
from real_runs import until
from small_disks import (
    SteeredTraining,
    complete,
    filled,
    head_with,
    small_disk,
    training,
    watched,
)

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.places import SPOOL_VARIABLE
from unilab_metrics.transport.rendezvous import aggregator_lease


@contextmanager
def stopped(pid: int) -> Generator[None, None, None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def check_losses_are_exact(run_dir: Path, facts: dict[str, Any], reason: str) -> dict[str, Any]:
    """What arrived and what was counted are together every call; the rest of the proof is
    ``verify``'s."""
    until(lambda: is_free(aggregator_lease(run_dir)) and read_summary(run_dir) is not None, 30.0)
    verified = verify_run(run_dir)
    dropped = facts["drops"][reason]
    arrived = [update.iteration for update, _ in updates(run_dir)]
    assert dropped > 0
    assert len(arrived) == len(set(arrived)) == facts["calls"] - dropped
    assert verified.history.ended == "completed"
    assert verified.lost_frames == 0
    assert verified.dropped_calls == facts["drops"] == {reason: dropped}
    until(lambda: leftovers() == [])
    summary = read_summary(run_dir)
    assert summary is not None
    return summary["bus"]


@pytest.mark.parametrize(
    "kind",
    [
        "disk",
        pytest.param("limit", marks=pytest.mark.slow),
        pytest.param("quota", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_full_spool_costs_what_it_counts_and_goes_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, spools = tmp_path / "run", tmp_path / "spools"
    monkeypatch.setenv(SPOOL_VARIABLE, str(spools))
    reason = "spool_quota" if kind == "quota" else "spool_full"
    with small_disk(spools, 1024), training(run_dir) as trainer:
        healthy = trainer.log(50)
        pid = aggregator_pid(run_dir)
        if kind == "limit":
            limits = (30_000, resource.RLIM_INFINITY)
            resource.prlimit(trainer.process.pid, resource.RLIMIT_FSIZE, limits)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.durable > 40)
            with stopped(pid), filling(kind, spools):
                full = trainer.log(4000, 0.0)
                assert full["drops"][reason] > 500
                # Refusing costs less than a disk that hangs; the bound is against a stall.
                assert full["most_us"] < 1e6
                assert full["median_us"] < 20 * healthy["median_us"] + 2000
                assert full["rss"] < healthy["rss"] + 20e6
            trainer.log(1)
            head = head_with(viewer, lambda head: head.sources[0].drops.get(reason, 0) > 500)
            assert head.sources[0].state == "live"
            # Delivered frames make room again, also where no new file can be made.
            until(lambda: takes_all(trainer))
        facts, errors = trainer.close()
        assert facts["delivered"]
        assert errors == ""
        bus = check_losses_are_exact(run_dir, facts, reason)
    # One message, however often the spool fills again while it is emptied: the outage is over
    # when all of it is delivered, and then its text knows the whole loss.
    (text,) = bus["warnings"]
    lost = facts["drops"][reason]
    assert re.fullmatch(rf"{re.escape(str(spools))}/\S+: .*; {lost} records were not kept", text)
    assert bus["warnings"][text] == 1


@contextmanager
def filling(kind: str, spools: Path) -> Generator[None, None, None]:
    if kind == "disk":
        with filled(spools, leave_bytes=65_536):
            yield
    else:
        yield


def takes_all(trainer: SteeredTraining) -> bool:
    before = sum(trainer.log(1)["drops"].values())
    return sum(trainer.log(20)["drops"].values()) == before


def test_an_oversize_record_is_counted_and_the_next_one_is_not(tmp_path: Path) -> None:
    program = (
        "import sys, unilab_metrics as um\n"
        "with um.init(run_dir=sys.argv[1], rank=0, world_size=1) as publisher:\n"
        "    publisher.event('status', 'x' * 300_000)\n"
        "    publisher.log({'Loss/value': 1.0}, iteration=1)\n"
    )
    assert run(program, tmp_path) == ""
    until(lambda: read_summary(tmp_path) is not None and is_free(aggregator_lease(tmp_path)))
    assert verify_run(tmp_path).dropped_calls == {"oversize": 1}
    assert len(updates(tmp_path)) == 1


@pytest.mark.parametrize("dies", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.slow
def test_a_spool_directory_that_is_deleted_under_a_live_training_costs_nothing(
    dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools = tmp_path / "spools"
    monkeypatch.setenv(SPOOL_VARIABLE, str(spools))
    with small_disk(spools, 4096), training(tmp_path) as trainer:
        trainer.log(100)
        aggregator_pid(tmp_path)
        empty_out(spools)
        assert list(spools.iterdir()) == []
        # Several segments of 64 KiB, so the next ones are made where the first one was.
        facts = trainer.log(1500, 0.0005)
        assert any(spools.rglob("spool-*"))
        assert any(spools.rglob("lease"))
        if dies:
            trainer.kill()
        else:
            facts, errors = trainer.close()
            assert (facts["delivered"], errors) == (True, "")
        until(lambda: is_free(aggregator_lease(tmp_path)) and read_summary(tmp_path), 30.0)
        verified = verify_run(tmp_path)
        arrived = [update.iteration for update, _ in updates(tmp_path)]
        # Killed at once, the part that lay in the deleted file alone may be lost: a number.
        assert len(arrived) + (verified.lost_frames or 0) == facts["calls"]
        assert verified.lost_frames == 0 or dies
        until(lambda: leftovers() == [])


def empty_out(folder: Path) -> None:
    """A clean-up: deletes what it finds, file by file."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


@pytest.mark.slow
def test_memory_is_bounded_while_nobody_collects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, spools = tmp_path / "run", tmp_path / "spools"
    monkeypatch.setenv(SPOOL_VARIABLE, str(spools))
    monkeypatch.setenv("UNILAB_METRICS_PYTHON", "/bin/false")
    with small_disk(spools, 2048), training(run_dir) as trainer:
        first = trainer.log(8000, 0.0)
        assert first["drops"]["spool_quota"] > 500
        more = trainer.log(12_000, 0.0)
        # A few of our own events are among them: that the aggregator cannot be started.
        assert more["drops"]["spool_quota"] - first["drops"]["spool_quota"] in range(12_000, 12_020)
        # The newest are dropped: what was kept first stays, in half of the file system.
        assert sum(path.stat().st_size for path in spools.rglob("spool-*")) < 1.1 * 1024 * 1024
        assert more["rss"] < first["rss"] + 5e6
        assert more["median_us"] < 5000
        facts, errors = trainer.close(1.0)
        assert "unsent: these frames wait in" in errors
        monkeypatch.delenv("UNILAB_METRICS_PYTHON")
        complete(run_dir)
        arrived = [update.iteration for update, _ in updates(run_dir)]
        assert arrived == list(range(1, len(arrived) + 1))
        assert len(arrived) + facts["drops"]["spool_quota"] in range(20_000, 20_020)
        assert verify_run(run_dir).dropped_calls == facts["drops"]
