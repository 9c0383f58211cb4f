"""A killed process gives back its memory before its locks: who wants the lease waits for that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unilab_metrics.errors import LeaseHeldError
from unilab_metrics.storage import lease
from unilab_metrics.storage.lease import Lease, settled_pid
from unilab_metrics.storage.process_table import is_ending

HOLDER = """
import sys, time
from pathlib import Path
from unilab_metrics.storage.lease import Lease
held = Lease.create(Path(sys.argv[1]), sys.argv[2], b"")
memory = bytearray(b"x") * (64 * 1024 * 1024)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.lease"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLDER, str(path.parent), path.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_lease_of_a_process_that_was_killed_just_now_is_to_be_had(
    holder: subprocess.Popen[bytes], path: Path
) -> None:
    assert not is_ending(holder.pid)
    holder.kill()
    Lease.create(path.parent, path.name, b"").release()
    assert is_ending(holder.pid)


def test_who_asks_for_the_holder_is_not_told_of_one_that_was_killed(
    holder: subprocess.Popen[bytes], path: Path
) -> None:
    assert settled_pid(path) == holder.pid
    holder.kill()
    assert settled_pid(path) is None


def test_a_stopped_process_is_killed_and_ends(holder: subprocess.Popen[bytes], path: Path) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    assert settled_pid(path) == holder.pid
    holder.kill()
    assert settled_pid(path) is None


def test_one_that_does_not_come_to_its_end_is_not_waited_for_any_longer(
    holder: subprocess.Popen[bytes], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "is_ending", lambda _: True)
    monkeypatch.setattr(lease, "_ENDING_S", 0.05)
    with pytest.raises(LeaseHeldError, match=f"held by pid {holder.pid}"):
        Lease.create(path.parent, path.name, b"")


def test_a_process_that_nobody_knows_is_no_living_one() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert is_ending(process.pid)
    assert not is_ending(os.getpid())
