"""Signals to ``unilab-metrics run -- CMD``: what is passed on, killed with the command, or named."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import psutil
import pytest
from case_runs import await_end, ended, holds_files, processes
from pressed_again import interrupt_again
from real_runs import until
from watched_trainings import PrintingTraining

LAUNCHER = [sys.executable, "-m", "unilab_metrics", "run"]


@contextlib.contextmanager
def launched(script: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A launcher whose command is ready, and what both say from then on."""
    with subprocess.Popen(
        [*LAUNCHER, "--", "bash", "-c", script], stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        yield launcher, launcher.stdout


STUBBORN = "trap '' INT TERM; echo ready; setsid -w sleep 60 & wait; sleep 60"


def test_a_second_ctrl_c_kills_also_what_has_a_session_of_its_own() -> None:
    with launched(STUBBORN) as (launcher, said):
        until(lambda: processes("sleep"))
        launcher.send_signal(signal.SIGINT)
        assert "Ctrl+C again kills it" in said.readline()
        interrupt_again(launcher)
        assert launcher.wait(60) == 137
    until(lambda: not processes("sleep"))


def has_shell(launcher: int) -> bool:
    for child in psutil.Process(launcher).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "bash":
                return True
    return False


DEAF = "sleep 61 & echo ready; wait"
"""The background job of a script never hears of Ctrl+C, which ends the script."""


def test_a_second_ctrl_c_kills_also_what_the_first_has_left_without_a_parent() -> None:
    with launched(DEAF) as (launcher, said):
        launcher.send_signal(signal.SIGINT)
        assert "Ctrl+C again kills it" in said.readline()
        until(lambda: not has_shell(launcher.pid))
        interrupt_again(launcher)
        assert launcher.wait(60) == 130
        assert "Still running" not in said.read()
    until(lambda: not processes("sleep"))


@pytest.mark.slow
def test_what_goes_on_after_ctrl_c_is_named() -> None:
    with launched(DEAF) as (launcher, said):
        # The shell may say so before it has become what it starts.
        until(lambda: processes("sleep"))
        (deaf,) = processes("sleep")
        try:
            launcher.send_signal(signal.SIGINT)
            words = said.read()
            assert launcher.wait(60) == 130
        finally:
            deaf.kill()
    assert f"Still running  pid {deaf.pid}; to end them: kill {deaf.pid}\n" in words


DAEMON = '( setsid "$0" "$@" & ) ; exec sleep 62'


@pytest.mark.slow
@pytest.mark.parametrize("kills", [True, False])
def test_a_training_that_has_made_itself_a_daemon_is_killed_or_named(
    training: PrintingTraining, *, kills: bool
) -> None:
    command = [*LAUNCHER, "--", "bash", "-c", DAEMON, *training.command()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        until(lambda: training.iterations() > 3 and processes("sleep"))
        daemon = training.process()
        launcher.send_signal(signal.SIGINT if kills else signal.SIGTERM)
        until(lambda: not processes("sleep"))
        assert daemon.is_running()
        if kills:
            interrupt_again(launcher)
        # Else the launcher waits for the rest of the run for as long as it does.
        said = launcher.stdout.read()
        assert launcher.wait(60) == (130 if kills else 143)
    if kills:
        await_end(daemon.pid)
    assert holds_files(daemon) is not kills
    assert (f"Still running  pid {daemon.pid};" in said) is not kills
    training.stop()
    ended(training.run_dir)


def test_signals_that_end_or_requeue_are_passed_on() -> None:
    code = (
        "trap 'echo requeued; exit 9' USR1; trap 'echo stopped; exit 7' TERM;"
        "trap 'echo dumped; exit 6' QUIT;"
        "echo ready; while :; do sleep 0.1; done"
    )
    for number, word, status in (
        (signal.SIGUSR1, "requeued", 9),
        (signal.SIGTERM, "stopped", 7),
        (signal.SIGQUIT, "dumped", 6),
    ):
        with launched(code) as (launcher, said):
            launcher.send_signal(number)
            assert word in said.read()
            assert launcher.wait(60) == status
