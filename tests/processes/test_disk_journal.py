"""The run directory on a disk that is full, read-only or broken: training goes on, nothing of
it is lost, and one message names the path."""

from __future__ import annotations

import os
import re
import resource
import signal
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_runs import aggregator_pid, ended, run, updates
from real_runs import fastest_s, until
from small_disks import (
    complete,
    filled,
    head_with,
    log_of,
    remount,
    small_disk,
    training,
    watched,
)

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.crash_points import POINTS_VARIABLE
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory


def warnings_of(run_dir: Path) -> list[str]:
    summary = read_summary(run_dir)
    assert summary is not None
    return list(summary["bus"]["warnings"])


def check_whole(run_dir: Path, facts: dict[str, Any], errors: str) -> None:
    assert facts["delivered"]
    assert (facts["drops"], errors) == ({}, "")
    ended(run_dir)
    found = [update.iteration for update, _ in updates(run_dir)]
    assert found == list(range(1, facts["calls"] + 1))


@pytest.mark.slow
def test_frames_wait_while_the_journal_is_full_and_writing_resumes(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with small_disk(bus_directory(run_dir), 2048), training(run_dir) as trainer:
        healthy = trainer.log(50)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.durable > 40)
            with filled(bus_directory(run_dir)):
                cramped = trainer.log(400)
                # It names the path to whoever watches, while it lasts.
                head = head_with(viewer, lambda head: head.journal_full)
                assert f"{bus_directory(run_dir)}/" in head.journal_full
                assert "no room" in head.journal_full
                waiting = head.update
            head_with(viewer, lambda head: not head.journal_full and head.update > waiting)
        assert cramped["median_us"] < 20 * healthy["median_us"] + 2000
        assert cramped["rss"] < healthy["rss"] + 20e6
        facts, errors = trainer.close()
        check_whole(run_dir, facts, errors)
        assert [text for text in warnings_of(run_dir) if "nothing was lost" in text]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs another process's limits")
def test_a_limit_of_the_aggregator_for_files_is_waited_out(tmp_path: Path) -> None:
    with training(tmp_path) as trainer:
        trainer.log(20)
        pid = aggregator_pid(tmp_path)
        with watched(tmp_path) as viewer:
            head_with(viewer, lambda head: head.durable > 10)
            soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
            trainer.log(200)
            head_with(viewer, lambda head: "file-size limit" in head.journal_full)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
            head_with(viewer, lambda head: not head.journal_full)
        check_whole(tmp_path, *trainer.close())
    said = log_of(tmp_path)
    assert said.count("frames wait in the spools") == 1
    assert said.count("nothing was lost") == 1


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("aggregator.syncing@6x3:eio", "sync of {bus} failed"),
        pytest.param("aggregator.wal@5:eio", "Input/output error", marks=pytest.mark.slow),
        pytest.param("aggregator.history@5:enospc", "no room", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_one_error_of_the_disk_costs_nothing(points: str, said: str, tmp_path: Path) -> None:
    with training(tmp_path, **{POINTS_VARIABLE: points}) as trainer:
        aggregator_pid(tmp_path)
        words = said.format(bus=bus_directory(tmp_path))
        for text in (words, "nothing was lost"):
            until(lambda text=text: trainer.log(10, 0.01) and text in log_of(tmp_path))
        trainer.log(10, 0.01)
        check_whole(tmp_path, *trainer.close())
    log = log_of(tmp_path)
    assert log.count("frames wait in the spools") in range(1, 4)
    assert words in log
    assert [text for text in warnings_of(tmp_path) if "nothing was lost" in text]


@pytest.mark.slow
def test_init_waits_for_no_run_directory_and_close_no_longer_than_it_is_told(
    tmp_path: Path,
) -> None:
    places = (tmp_path / str(n) for n in count())

    def init_s() -> float:
        run_dir = next(places)
        with small_disk(run_dir, 4096, ",ro"), training(run_dir) as trainer:
            return trainer.opened["s"]

    def close_s() -> float:
        run_dir = next(places)
        with small_disk(run_dir, 4096, ",ro"), training(run_dir) as trainer:
            trainer.log(100)
            facts, _ = trainer.close(3.0)
            assert not facts["delivered"]
            return facts["s"]

    assert fastest_s(init_s, 0.05) < 0.05
    # And a little, in which whoever sends ends.
    assert fastest_s(close_s, 3.5) < 3.5


@pytest.mark.slow
def test_a_read_only_run_directory_is_opened_later(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with small_disk(run_dir, 4096, ",ro"), training(run_dir) as trainer:
        trainer.log(100)
        remount(run_dir, "rw")
        trainer.log(100)
        aggregator_pid(run_dir)
        facts, errors = trainer.close()
        # One warning when it began, with the path of the run and of the spool.
        assert errors.count("RuntimeWarning") == 1
        assert f"{run_dir}" in errors
        assert "frames wait in" in errors
        check_whole(run_dir, facts, "")


@pytest.mark.slow
def test_a_read_only_run_directory_keeps_the_spool_and_names_it(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with small_disk(run_dir, 4096, ",ro"), training(run_dir) as trainer:
        trainer.log(100)
        facts, errors = trainer.close(3.0)
        assert not facts["delivered"]
        assert re.search(r"\d+ unsent: these frames wait in ", errors)
        assert "Read-only file system" in errors
        remount(run_dir, "rw")
        # The next attempt has the same launch key, and so takes them in.
        run(NEXT_ATTEMPT, run_dir)
        until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))
        verified = verify_run(run_dir)
        assert verified.lost_frames == 0
        assert [u.iteration for u, _ in updates(run_dir)][:100] == list(range(1, 101))


NEXT_ATTEMPT = """
import sys
import unilab_metrics as um
with um.init(algorithm="sac", run_dir=sys.argv[1], rank=0, world_size=1) as publisher:
    publisher.log({"Loss/value": 1.0}, iteration=1)
"""


@pytest.mark.slow
def test_a_run_is_opened_once_there_is_room_for_it(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, 1024):
        run_dir = disk / "run"
        with filled(disk):
            trainer_of = training(run_dir)
            trainer = trainer_of.__enter__()
            trainer.log(100)
        try:
            facts, errors = trainer.close()
            assert errors.count("RuntimeWarning") <= 1
            check_whole(run_dir, facts, "")
            assert (run_dir / "run_config.json").exists()
        finally:
            trainer_of.__exit__(None, None, None)


@pytest.mark.slow
def test_an_aggregator_killed_on_a_full_disk_has_promised_nothing_that_it_had_not_written(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with small_disk(bus_directory(run_dir), 2048), training(run_dir) as trainer:
        trainer.log(50)
        pid = aggregator_pid(run_dir)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.durable > 40)
            with filled(bus_directory(run_dir)):
                trainer.log(300)
                head_with(viewer, lambda head: head.journal_full)
                os.kill(pid, signal.SIGKILL)
                # Its successors cannot begin, which costs no file each time.
                until(lambda: not psutil.pid_exists(pid))
                trainer.log(500, 0.01)
                assert len(list(bus_directory(run_dir).glob("wal-*"))) <= 3
        assert aggregator_pid(run_dir, other_than=pid)
        check_whole(run_dir, *trainer.close())


@pytest.mark.slow
def test_a_disk_that_stays_full_ends_the_run_in_time_and_recover_completes_it(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with small_disk(bus_directory(run_dir), 2048), training(run_dir) as trainer:
        trainer.log(50)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.durable > 40)
            with filled(bus_directory(run_dir)):
                trainer.log(300)
                head_with(viewer, lambda head: head.journal_full)
                facts, errors = trainer.close()
                assert not facts["delivered"]
                assert facts["s"] < 25
                assert "unsent: these frames wait in" in errors
                assert "no room" in errors
                assert f"{bus_directory(run_dir)}/" in errors
                until(lambda: is_free(aggregator_lease(run_dir)))
                # The summary lies on another disk here and tells it.
                assert [text for text in warnings_of(run_dir) if "no room" in text]
        (run_dir / RUN_SUMMARY_FILE).unlink()
        complete(run_dir)
        facts["delivered"] = True
        check_whole(run_dir, facts, "")
