"""BR-67: what a lock file says about its owner decides nothing; nobody is signalled for it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import ended, run, scalars
from real_runs import until
from steered_ranks import SteeredRank

from unilab_metrics.storage import endings, process_table
from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, aggregator_lease, bus_directory

TRAINING = """
import sys
import unilab_metrics as um
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
assert publisher.close(90), publisher.errors
"""


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A live process that has nothing to do with us, whose pid a lock names."""
    command = [sys.executable, "-c", "import time; time.sleep(3600)"]
    elsewhere = os.environ | {"TMPDIR": "/tmp"}
    with subprocess.Popen(command, env=elsewhere) as process:
        yield process
        assert process.poll() is None, "it was signalled"
        process.kill()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("other host", marks=pytest.mark.slow),
        "same host, another start",
        pytest.param("cut off", marks=pytest.mark.slow),
    ],
)
def test_a_stale_lock_is_taken_over_and_the_process_it_names_is_left_alone(
    case: str, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    bus = private_directory(bus_directory(run_dir))
    text = {
        "other host": f"pid {stranger.pid} on elsewhere",
        "same host, another start": json.dumps(
            {"pid": stranger.pid, "host": platform.node(), "boot": boot_id(), "start": 1}
        ),
        "cut off": f'{{"pid": {stranger.pid}, "ho',
    }[case]
    for name in (AGGREGATOR_LEASE, "writer-tensorboard.lease"):
        (bus / name).write_text(text)
        (bus / name).chmod(0o600)
    assert run(TRAINING, run_dir) == ""
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}


def test_the_true_owner_is_named_and_keeps_its_run(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready().log(0, 4)
        until(lambda: owner_pid(aggregator_lease(run_dir)), 30.0)
        owner = owner_pid(aggregator_lease(run_dir))
        done = subprocess.run(
            [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 5
        assert f"pid {owner}" in done.stderr
        assert owner_pid(aggregator_lease(run_dir)) == owner
        zero.log(5, 9)
        assert zero.end().startswith("True")
    ended(run_dir)
    assert [step for step, _ in scalars(run_dir)["Loss/value"]] == list(range(10))


def test_a_pid_that_is_used_again_is_not_taken_for_the_process_that_had_it(
    stranger: subprocess.Popen[bytes],
) -> None:
    first_ns = process_table.time.monotonic_ns()
    until(lambda: process_table.was_running(stranger.pid, first_ns))
    assert process_table.was_running(os.getpid(), first_ns)
    long_before_ns = first_ns - 10**12
    assert not process_table.was_running(stranger.pid, long_before_ns)
    assert not process_table.was_running(2**22 + 1, first_ns)
    watched = process_table.Watched(stranger.pid, long_before_ns)
    assert watched.wait_status() is None
    watched.close()


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_how_a_watched_process_ended_is_learnt_from_its_zombie(code: str) -> None:
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        watched = process_table.Watched(process.pid, process_table.time.monotonic_ns())
        until(lambda: watched.wait_status() is not None)
        status = watched.wait_status()
        assert status is not None
        assert os.waitstatus_to_exitcode(status) == process.wait()
        # Linux 6.15 and later tell it also when the parent has waited.
        assert watched.wait_status() in {None, status}
        watched.close()


def test_a_launchers_note_counts_for_the_process_that_it_means_only(tmp_path: Path) -> None:
    note = {"started_mono_ns": 100, "ended_mono_ns": 200}
    endings.note_ending(tmp_path, 7, -9, **note)
    endings.note_ending(tmp_path, 8, 3, **note)
    assert endings.noted_status(tmp_path, 7, 150) == -9
    assert endings.noted_status(tmp_path, 8, 150) == 3
    assert endings.noted_status(tmp_path, 7, 99) is None
    assert endings.noted_status(tmp_path, 7, 201) is None
    assert endings.noted_status(tmp_path, 9, 150) is None
    with (tmp_path / endings.ENDINGS_FILE).open("ab") as file:
        file.write(b'\xff\n{"pid": 9, "boot')
    assert endings.noted_status(tmp_path, 7, 150) == -9
    assert endings.noted_status(tmp_path / "none", 7, 150) is None
