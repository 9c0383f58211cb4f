"""Trainings as jobs of a shell: in the background, put aside, continued, their window closed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from case_runs import kill_processes, leftovers, processes
from pty_terminals import ShellTerminal, command_line
from real_runs import until
from shell_trainings import ShellTraining

SHOWN = "q close"


@pytest.fixture
def training(tmp_path: Path) -> Iterator[ShellTraining]:
    yield ShellTraining(tmp_path / "run")
    kill_processes()


@pytest.fixture
def shell() -> Iterator[ShellTerminal]:
    opened = ShellTerminal()
    yield opened
    opened.close()


def goes_on(training: ShellTraining, shell: ShellTerminal, by: int = 20) -> None:
    so_far = training.iterations()
    shell.until(lambda: training.iterations() >= so_far + by)


def stands_still(training: ShellTraining, shell: ShellTerminal) -> None:
    """Once what was on its way has come."""
    shell.until(lambda: _rank().status() == psutil.STATUS_STOPPED)
    so_far = -1

    def is_still() -> bool:
        nonlocal so_far
        before, so_far = so_far, training.iterations()
        shell.quiet_for(0.5)
        return training.iterations() == so_far == before

    shell.until(is_still)
    shell.quiet_for(1.0)
    assert training.iterations() == so_far


def _rank() -> psutil.Process:
    found: list[psutil.Process] = []
    for process in processes("-c"):
        # A launcher has the training's words further behind; some other one may have just ended.
        with contextlib.suppress(psutil.Error):
            found += [process] if "um.init" in "".join(process.cmdline()[2:3]) else []
    (rank,) = found
    return rank


def show(shell: ShellTerminal, training: ShellTraining) -> psutil.Process:
    """Start a training whose sidecar has the terminal; the launcher."""
    shell.enter(training.launched)
    shell.until(lambda: shell.screen.is_alternate and shell.is_raw())
    shell.until_shown("iter ")
    (launcher,) = psutil.Process(shell.process.pid).children()
    return launcher


def end(training: ShellTraining, shell: ShellTerminal) -> None:
    training.stop()
    shell.until_prompt(60.0)
    assert shell.settings() == shell.before
    shell.close()
    training.assert_whole()


@pytest.mark.slow
def test_ctrl_z_in_the_sidecar_of_a_training_stops_nothing(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    show(shell, training)
    shell.type("\x1a")
    shell.until_shown("Ctrl+Z stops nothing here")
    goes_on(training, shell)
    assert shell.front_group() != shell.process.pid
    shell.type("q")
    shell.until_shown("training goes on; Ctrl+C stops it, ")
    assert shell.settings() == shell.before
    # Now the job has the keyboard, and Ctrl+Z is meant for it.
    shell.type("\x1a")
    shell.until_shown("Stopped")
    stands_still(training, shell)
    assert "silent" not in shell.screen.text
    shell.enter("bg")
    goes_on(training, shell)
    shell.enter("fg")
    goes_on(training, shell)
    assert "-" not in shell.screen.text.rpartition("elapsed ")[2][:8]
    end(training, shell)


@pytest.mark.slow
def test_a_suspended_launcher_takes_the_sidecar_off_the_screen_and_fg_brings_it_back(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    launcher = show(shell, training)
    os.killpg(launcher.pid, signal.SIGTSTP)
    shell.until(lambda: not shell.screen.is_alternate)
    stands_still(training, shell)
    shell.run("echo between")
    shell.enter("fg")
    shell.until(lambda: shell.screen.is_alternate and shell.is_raw())
    shell.until_shown("iter ")
    goes_on(training, shell)
    shell.until(lambda: "● training" in shell.screen.text)
    end(training, shell)


@pytest.mark.slow
def test_a_launcher_killed_while_it_is_stopped_leaves_nobody_stopped(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    launcher = show(shell, training)
    shell.type("q")
    shell.until_shown("training goes on")
    shell.type("\x1a")
    shell.until_shown("Stopped")
    stands_still(training, shell)
    launcher.kill()
    goes_on(training, shell)
    training.stop()
    shell.close()
    training.assert_whole()


@pytest.mark.slow
def test_in_the_background_a_training_takes_no_terminal(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    shell.run(training.launched + " > lines.txt &")
    goes_on(training, shell)
    shell.run("echo one")
    assert not shell.screen.is_alternate
    assert shell.quiet_for(1.0) == b""
    shell.run("jobs")
    assert "Running" in shell.screen.text
    shell.enter("fg")
    goes_on(training, shell)
    assert not shell.screen.is_alternate
    shell.type("\x03")
    shell.until_prompt(60.0)
    shell.close()
    until(lambda: leftovers() == [], 60.0)
    assert "stopped by Ctrl+C" in Path("lines.txt").read_text()


@pytest.mark.slow
def test_a_plain_training_in_the_background_stops_and_goes_on_as_the_shell_says(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    shell.run("stty tostop")
    shell.run(training.alone + " &")
    goes_on(training, shell)
    shell.enter("fg")
    goes_on(training, shell)
    shell.type("\x1a")
    shell.until_shown("Stopped")
    stands_still(training, shell)
    attach = [sys.executable, "-m", "unilab_metrics", "attach", str(training.run_dir)]
    shell.run("stty -tostop")
    shell.enter(command_line(attach))
    shell.until(lambda: shell.screen.is_alternate and shell.is_raw())
    shell.until_shown("iter ")
    shell.type("q")
    shell.until_prompt()
    shell.run("bg")
    goes_on(training, shell)
    shell.enter(command_line(attach))
    shell.until_shown("● training")
    shell.type("\x1a")
    shell.until_prompt()
    goes_on(training, shell)
    shell.enter("fg")
    shell.until(lambda: shell.screen.is_alternate and shell.is_raw())
    shell.until_shown("● training")
    shell.type("q")
    shell.until_prompt()
    shell.enter(command_line(attach) + " &")
    shell.until_shown("elapsed ")
    assert not shell.screen.is_alternate
    training.stop()
    shell.until_shown("run ended: completed", 60.0)
    shell.close()
    training.assert_whole()


@pytest.mark.slow
def test_a_closed_window_ends_the_training_as_sighup_does_and_keeps_its_metrics(
    training: ShellTraining, shell: ShellTerminal
) -> None:
    show(shell, training)
    goes_on(training, shell)
    shell.hang_up()
    until(lambda: leftovers() == [], 60.0)
    assert training.iterations() >= 20
