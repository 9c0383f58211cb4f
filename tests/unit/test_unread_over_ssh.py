"""A history of another machine of which nothing can be read, as ``sh`` alone tells it, against what is
said where the files are."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest
from history_files import Segments, update

from unilab_metrics.errors import DamagedFileError, ExitCode, NoLiveRunError
from unilab_metrics.subscribe.ssh import judging, script
from unilab_metrics.subscribe.ssh.report import Listener, Report
from unilab_metrics.subscribe.ssh.target import SshTarget
from unilab_metrics.subscribe.unread_history import refuse_unread


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    made = tmp_path / "it's a run" / "bus"
    made.mkdir(parents=True)
    return made


def reported(run_dir: Path) -> Report:
    asked = script.preamble("um-mark") + script.ask_run(str(run_dir))
    done = subprocess.run(["/bin/sh"], input=asked, capture_output=True, timeout=60, check=True)
    (made,) = Listener("um-mark").take(done.stdout)
    return made


def said(bus: Path) -> int:
    """The exit code."""
    target = SshTarget("box", str(bus.parent))
    with pytest.raises((NoLiveRunError, DamagedFileError)) as raised:
        judging.judge(target, reported(bus.parent))
    return int(raised.value.exit_code)


def locally(bus: Path) -> int:
    try:
        refuse_unread(bus.parent)
    except DamagedFileError as error:
        return int(error.exit_code)
    return ExitCode.NO_LIVE_RUN


def written(bus: Path) -> bytes:
    segments = Segments(bus)
    first = segments.start()
    segments.append(first, update(1), b"hello")
    return first.read_bytes()


@pytest.mark.parametrize("content", [b"hello\n" * 10_000, b"UMR", b"\0" * 5000, b"\xff" * 100])
def test_nothing_that_can_be_read_is_damage_there_too(content: bytes, bus: Path) -> None:
    (bus / "history-000001-000000").write_bytes(content)
    assert (said(bus), locally(bus)) == (ExitCode.DAMAGED, ExitCode.DAMAGED)
    with pytest.raises(DamagedFileError, match=r"box:.*/bus/history-000001-000000: .*nothing in"):
        judging.judge(SshTarget("box", str(bus.parent)), reported(bus.parent))


@pytest.mark.parametrize("files", [(), (b"",), (b"", b"")])
def test_nothing_that_was_written_is_none(files: tuple[bytes, ...], bus: Path) -> None:
    for number, content in enumerate(files):
        (bus / f"history-000001-{number:06d}").write_bytes(content)
    assert (said(bus), locally(bus)) == (ExitCode.NO_LIVE_RUN, ExitCode.NO_LIVE_RUN)


def test_a_part_that_can_be_read_is_enough(bus: Path) -> None:
    written(bus)
    (bus / "history-000001-000001").write_bytes(b"hello\n" * 1000)
    assert (said(bus), locally(bus)) == (ExitCode.NO_LIVE_RUN, ExitCode.NO_LIVE_RUN)


@pytest.mark.parametrize("kept", [1, 20, 60, -1])
def test_what_was_cut_while_it_was_written_counts_the_same(kept: int, bus: Path) -> None:
    whole = written(bus)
    (bus / "history-000001-000000").write_bytes(whole[:kept])
    assert said(bus) == locally(bus)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no list of locks here")
def test_of_whoever_is_at_work_no_files_are_read(bus: Path) -> None:
    (bus / "history-000001-000000").write_bytes(b"hello")
    assert reported(bus.parent).histories == (("history-000001-000000", b"hello"),)
    with (bus / "aggregator.lease").open("w") as lease:
        fcntl.lockf(lease, fcntl.LOCK_EX)
        report = reported(bus.parent)
    assert (report.aggregator.lock, report.histories) == ("held", ())
