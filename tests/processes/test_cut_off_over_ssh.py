"""A run of another machine that ends, however it ends, while somebody watches it over ssh."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from case_runs import holds_files
from loopback_sshd import LoopbackSshd
from pty_terminals import PtyTerminal
from real_runs import start, until
from runs_over_ssh import TRAINING, cut, places

pytestmark = pytest.mark.slow


@contextmanager
def doomed_training(folder: Path) -> Iterator[tuple[Path, list[psutil.Process]]]:
    """A run that the test kills: its directory, and all of its processes."""
    made, stop = folder / "it's a run", folder / "stop"
    training = start(TRAINING, str(made), str(stop))
    try:
        until((made / "bus" / "bus.json").exists)
        process = psutil.Process(training.pid)
        yield made, [process, *process.children(recursive=True)]
    finally:
        stop.touch()
        training.communicate(timeout=30)


def kill(processes: list[psutil.Process]) -> None:
    # Who starts others anew goes first.
    for one in processes:
        one.send_signal(signal.SIGSTOP)
    for one in processes:
        one.kill()


def view(target: str, *options: str) -> PtyTerminal:
    command = (sys.executable, "-m", "unilab_metrics", "attach", target, *options)
    return PtyTerminal(*command, columns=140)


def test_a_run_that_is_cut_off_is_called_so_as_on_its_own_machine(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    with doomed_training(short_path) as (run_dir, processes):
        near, far = view(str(run_dir)), view(f"box:{run_dir}")
        try:
            for one in (near, far):
                one.until_shown("● training")
            kill(processes)
            for one in (near, far):
                one.until_shown("✗ run cut off")
                one.until_shown("gone: the aggregator (pid")
                one.until_shown("learner of rank 0 (pid")
            near.until_shown("nobody on this machine is at work on it")
            far.until_shown("nobody on box is at work on it")
            assert "there, `unilab-metrics recover" in far.screen.text
            far.type("q")
            assert far.wait() == 0
        finally:
            near.close()
            far.close()
        lines = view(f"box:{run_dir}", "--lines")
        try:
            assert lines.wait() == 4
        finally:
            lines.close()
    until(lambda: places(sshd) == [])


def test_an_aggregator_alone_that_is_killed_is_not_the_end_and_one_out_of_sight_is(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    with doomed_training(short_path) as (run_dir, processes):
        far = view(f"box:{run_dir}")
        try:
            far.until_shown("● training")
            rank = processes[0]
            rank.send_signal(signal.SIGSTOP)
            for one in processes[1:]:
                one.kill()
            far.until_shown("aggregator silent")
            assert "cut off" not in far.quiet_for(4.0).decode(errors="replace").lower()
            rank.send_signal(signal.SIGCONT)
            far.until_shown("● training")
            others = rank.children(recursive=True)
            assert others
            sshd.stop()
            cut(far.process.pid)
            far.until_shown("no connection to box")
            (short_path / "stop").touch()
            until(lambda: not any(map(holds_files, others)))
            sshd.start()
            far.until_shown("run ended: completed")
            assert "cut off" not in far.screen.text
        finally:
            far.close()


def once(target: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-m", "unilab_metrics", "attach", target, "--once")
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def test_who_comes_while_only_the_aggregator_is_gone_waits_for_the_next_one(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    with doomed_training(short_path) as (run_dir, processes):
        until(lambda: list((run_dir / "bus").glob("history-*")))
        # Who is dead and was not waited for by a process that stands still is no aggregator either.
        processes[0].send_signal(signal.SIGSTOP)
        for one in processes[1:]:
            one.kill()
        far = once(f"box:{run_dir}")
        with pytest.raises(subprocess.TimeoutExpired):
            far.communicate(timeout=4.0)
        processes[0].send_signal(signal.SIGCONT)
        lines, errors = far.communicate(timeout=60)
        assert (far.returncode, errors) == (0, "")
        assert lines.startswith("iter ")


def test_with_damaged_settings_nobody_is_called_gone(sshd: LoopbackSshd, short_path: Path) -> None:
    with doomed_training(short_path) as (run_dir, processes):
        until(lambda: list((run_dir / "bus").glob("history-*")))
        kill(processes)
        (run_dir / "bus" / "settings.json").write_bytes(b'{"spools": 3}')
        far = once(f"box:{run_dir}")
        _, errors = far.communicate(timeout=60)
        assert far.returncode == 6
        assert "settings.json" in errors
        assert "cut off" not in errors


def test_a_command_that_hangs_there_ends_with_the_connection(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    (short_path / "bin").mkdir()
    hung, told = short_path / "bin" / "cat", short_path / "hung.pid"
    hung.write_text(f"#!/bin/sh\necho $$ >>'{told}'\ntrap '' TERM HUP PIPE\nexec sleep 300\n")
    hung.chmod(0o755)
    key = (sshd.folder / "user_key.pub").read_text()
    command = f'PATH={hung.parent}:$PATH exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"'
    (sshd.folder / "authorized").write_text(f'command="{command}" {key}')
    (short_path / "run" / "bus").mkdir(parents=True)
    (short_path / "run" / "bus" / "bus.json").write_text("{}")
    far = view(f"box:{short_path / 'run'}")
    try:
        far.until(lambda: told.exists() and told.read_text().endswith("\n"))
        (process, *_) = [psutil.Process(int(pid)) for pid in told.read_text().split()]
        far.process.kill()
        far.until(lambda: not holds_files(process))
    finally:
        far.close()
        for pid in told.read_text().split() if told.exists() else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(int(pid)).kill()
