"""The crash points themselves: arming, counting over processes, and what each action does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unilab_metrics import crash_points
from unilab_metrics.crash_points import POINTS_VARIABLE, TOKENS_VARIABLE, CrashPoint

PASSES = """
import sys
from unilab_metrics import crash_points

for number in range(1, 6):
    if crash_points.armed:
        crash_points.reach("aggregator.committed")
    print(number, flush=True)
"""
WRITES = """
import os, sys
from unilab_metrics.storage.segments import SegmentWriter
from pathlib import Path

segment = SegmentWriter.create(Path(sys.argv[1]) / "wal-000001-000000")
segment.append(b"header")
segment.append(b"0123456789")
print(segment.size_bytes, flush=True)
"""


def run(code: str, *arguments: str, points: str = "", tokens: Path | None = None):
    environment = os.environ | {POINTS_VARIABLE: points}
    if tokens is not None:
        environment[TOKENS_VARIABLE] = str(tokens)
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, env=environment
    )


def test_a_process_that_nobody_armed_passes_every_point() -> None:
    assert not crash_points.armed
    done = run(PASSES)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "2", "3", "4", "5"])


def test_a_point_kills_at_its_pass_as_often_as_it_has_tokens(tmp_path: Path) -> None:
    ends = [run(PASSES, points="aggregator.committed@3x2", tokens=tmp_path) for _ in range(3)]
    assert [done.returncode for done in ends] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert [done.stdout.split()[-1] for done in ends] == ["2", "2", "5"]
    assert crash_points.used(os.listdir(tmp_path)) == {"aggregator.committed": 2}


def test_a_kill_in_the_middle_of_a_write_leaves_one_half(tmp_path: Path) -> None:
    done = run(WRITES, str(tmp_path), points="aggregator.wal@2")
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "wal-000001-000000").read_bytes() == b"header01234"


def test_a_process_that_was_stopped_in_a_write_goes_on_with_all_of_it(tmp_path: Path) -> None:
    environment = os.environ | {POINTS_VARIABLE: "aggregator.wal@2:stop"}
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert (tmp_path / "wal-000001-000000").read_bytes() == b"header01234"
        os.kill(process.pid, signal.SIGCONT)
        assert process.communicate(timeout=30)[0] == b"16\n"
    assert (tmp_path / "wal-000001-000000").read_bytes() == b"header0123456789"


@pytest.mark.parametrize(("action", "number"), [("eio", errno.EIO), ("enospc", errno.ENOSPC)])
def test_an_error_comes_before_the_write(tmp_path: Path, action: str, number: int) -> None:
    done = run(WRITES, str(tmp_path), points=f"aggregator.wal@2:{action}")
    assert done.returncode == 1
    assert os.strerror(number) in done.stderr
    assert (tmp_path / "wal-000001-000000").read_bytes() == b"header"


def test_every_point_of_the_list_can_be_armed_and_nothing_else() -> None:
    points = crash_points.names()
    assert len(points) == len(set(points)) == 22
    assert set(crash_points.parse(" ".join(points))) == set(points)
    assert crash_points.parse("writer.events@2x3:enospc") == {
        "writer.events": CrashPoint("writer.events", 2, 3, "enospc")
    }
    for text in ("writer.event", "writer.events@", "writer.events:term", "writer.events@x"):
        with pytest.raises(ValueError, match="is no crash point"):
            crash_points.parse(text)


def test_a_typing_error_arms_nothing() -> None:
    done = run(PASSES, points="aggregator.comitted")
    assert (done.returncode, done.stderr) == (0, "")
