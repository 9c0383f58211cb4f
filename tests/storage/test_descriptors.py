"""Descriptors that stay out of a training's way, and that are not mistaken for another's."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.storage import descriptors
from unilab_metrics.storage.descriptors import Held, lowest_number, out_of_the_way
from unilab_metrics.storage.lease import Lease, is_free


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def test_the_number_is_high_and_closed_on_exec(tmp_path: Path) -> None:
    moved = out_of_the_way(opened(tmp_path / "a"))
    try:
        assert lowest_number() <= moved < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert not os.get_inheritable(moved)
    finally:
        os.close(moved)


@pytest.mark.parametrize(
    ("limit", "lowest"),
    [(30, 22), (256, 192), (1024, 768), (20_000, 3840), (resource.RLIM_INFINITY, 3840)],
)
def test_numbers_stay_below_the_limit_and_the_table_of_descriptors_small(
    limit: int, lowest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert lowest_number() == lowest


def test_where_there_is_no_high_number_the_low_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    monkeypatch.setattr(descriptors, "lowest_number", lambda: beyond)
    fd = opened(tmp_path / "a")
    assert out_of_the_way(fd) == fd
    os.close(fd)


def test_a_number_that_means_another_file_is_not_closed(tmp_path: Path) -> None:
    held = Held(opened(tmp_path / "ours"))
    os.close(held.fd)
    assert not held.is_ours
    fd = opened(tmp_path / "theirs")
    assert fd == held.fd
    assert not held.is_ours
    held.close()
    os.fstat(fd)
    os.close(fd)


def test_a_pipe_that_was_closed_neither_reads_nor_keeps_awake(tmp_path: Path) -> None:
    wakeup = Wakeup()
    assert not wakeup.reclaim()
    os.close(wakeup.fileno())
    assert wakeup.reclaim()
    wakeup.wake()
    wakeup.wait(10.0)
    assert not wakeup.reclaim()
    wakeup.close()


def test_a_lease_that_was_closed_says_so_and_writes_nowhere(tmp_path: Path) -> None:
    lease = Lease.create(tmp_path, "lease", b"one")
    assert lease.is_intact
    os.close(lease._file.fd)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(theirs, b"theirs")
    os.dup2(theirs, lease._file.fd)
    assert not lease.is_intact
    with pytest.raises(OSError, match="Bad file descriptor"):
        lease.rewrite(b"two")
    number = lease._file.fd
    lease.release(unlink=False)
    assert os.pread(number, 100, 0) == b"theirs"
    os.close(number)
    os.close(theirs)
    assert is_free(tmp_path / "lease")


FEW = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), 4096))
from unilab_metrics.storage.descriptors import lowest_number, out_of_the_way
first = out_of_the_way(os.open(sys.argv[2], os.O_RDONLY))
more = []
try:
    while True:
        more.append(os.open(sys.argv[2], os.O_RDONLY))
except OSError:
    pass
os.close(more.pop())
moved = out_of_the_way(os.open(sys.argv[2], os.O_RDONLY))
print(first >= lowest_number(), os.fstat(moved).st_ino == os.stat(sys.argv[2]).st_ino)
"""


def test_the_last_descriptor_that_a_process_gets_is_taken_as_it_is(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FEW, "30", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert output.stdout.split() == ["True", "True"]
