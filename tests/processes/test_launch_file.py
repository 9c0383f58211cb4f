"""Ranks find the run of their own launch, and never that of an earlier one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unilab_metrics.run.meeting import launch_file
from unilab_metrics.run.meeting.inheritance import count_opened, pass_on, read
from unilab_metrics.run.meeting.launch_file import (
    announce_run,
    find_run,
    forget_run,
    is_alive,
    is_kept,
    parent_of,
    process_name,
    sweep_launches,
)
from unilab_metrics.run.meeting.launch_key import ProcessName
from unilab_metrics.storage.places import runtime_directory

RANK_0 = """
import sys, time
from pathlib import Path
from unilab_metrics.run.meeting.launch_file import announce_run
announce_run("key", Path("/logs/run"))
print("announced", flush=True)
time.sleep(60)
"""

ANNOUNCE = """
import sys
from pathlib import Path
from unilab_metrics.run.meeting.launch_file import ProcessName, announce_run
keeper = ProcessName(int(sys.argv[1]), sys.argv[2]) if sys.argv[1:] else None
announce_run("restarted", Path("/logs/run"), keeper)
"""


@pytest.fixture
def rank_0() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RANK_0], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "announced\n"
        yield process
        process.kill()


def test_the_run_of_a_living_rank_0_is_found(rank_0: subprocess.Popen[str]) -> None:
    assert find_run("key") == Path("/logs/run")
    assert find_run("another key") is None


def test_the_run_of_a_dead_rank_0_is_found_only_by_its_restart(
    rank_0: subprocess.Popen[str],
) -> None:
    rank_0.kill()
    deadline_s = time.monotonic() + 5
    while find_run("key") is not None:
        assert time.monotonic() < deadline_s
    assert find_run("key", of_dead_rank_0=True) == Path("/logs/run")


def test_a_stopped_rank_0_is_alive(rank_0: subprocess.Popen[str]) -> None:
    rank_0.send_signal(signal.SIGSTOP)
    assert find_run("key") is not None


@pytest.mark.parametrize("keeper", [None, os.getpid()])
def test_a_file_is_swept_when_nobody_can_need_it(
    keeper: int | None, rank_0: subprocess.Popen[str]
) -> None:
    sweep_launches()
    assert find_run("key") is not None
    name = None if keeper is None else process_name(keeper)
    with subprocess.Popen([sys.executable, "-c", ANNOUNCE, *map(str, name or ())]) as process:
        assert process.wait(30) == 0
    rank_0.kill()
    rank_0.wait()
    sweep_launches()
    assert find_run("key", of_dead_rank_0=True) is None
    kept = find_run("restarted", of_dead_rank_0=True)
    assert kept == (None if keeper is None else Path("/logs/run"))
    assert is_kept("restarted") is (keeper is not None)


def test_opening_a_run_sweeps_what_others_left(rank_0: subprocess.Popen[str]) -> None:
    rank_0.kill()
    rank_0.wait()
    announce_run("mine", Path("/logs/mine"))
    assert [path.name for path in runtime_directory().iterdir()] == ["launch-mine.json"]


def test_the_file_of_a_complete_run_stays_while_its_launcher_may_start_it_again() -> None:
    run_dir = Path("/logs/run")
    announce_run("key", run_dir, process_name(os.getppid()))
    forget_run("key", run_dir)
    assert find_run("key") == run_dir
    announce_run("key", run_dir, ProcessName(os.getppid(), "another start"))
    forget_run("key", run_dir)
    assert find_run("key") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b"\xff", b"{}" * 50_000])
def test_a_file_that_cannot_be_read_is_no_run(content: bytes) -> None:
    announce_run("key", Path("/logs/run"))
    (path,) = runtime_directory().glob("launch-*.json")
    path.write_bytes(content)
    assert find_run("key") is None


def test_a_file_of_another_boot_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    announce_run("key", Path("/logs/run"))
    monkeypatch.setattr(launch_file, "boot_id", lambda: "the next boot")
    assert find_run("key", of_dead_rank_0=True) is None


def test_a_file_that_others_can_write_is_no_run() -> None:
    announce_run("key", Path("/logs/run"))
    (path,) = runtime_directory().glob("launch-*.json")
    path.chmod(0o666)
    assert find_run("key") is None


def test_a_pid_that_was_given_out_again_is_another_process() -> None:
    own = process_name(os.getpid())
    assert is_alive(own)
    if own.start:
        assert not is_alive(ProcessName(own.pid, "1"))
    assert parent_of(own.pid) == os.getppid()


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        name = process_name(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(name)


def test_children_inherit_what_the_process_itself_does_not_take_for_a_wish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNILAB_METRICS_RUN", "/logs/chosen")
    assert read(os.environ, of_others=True).run_dir == Path("/logs/chosen")
    pass_on(run_dir=Path("/logs/one"), launch="k", rank=3, algorithm="sac", strict=True)
    ours = read(os.environ, of_others=True)
    assert (ours.run_dir, ours.launch, ours.rank) == (None, "", None)
    within = read(os.environ, of_others=False)
    assert within == (Path("/logs/one"), "k", 3, "sac", True)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if read(os.environ, of_others=True) == within else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_unilabs_own_variable_names_the_run() -> None:
    environ = {"UNILAB_DP_LOG_DIR": "/logs/dp"}
    assert read(environ, of_others=True).run_dir == Path("/logs/dp")


def test_runs_are_counted_per_process() -> None:
    first = count_opened()
    assert count_opened() == first + 1
    pid = os.fork()
    if pid == 0:
        os._exit(count_opened())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
