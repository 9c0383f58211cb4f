"""``unilab-metrics run -- CMD``: output, terminal and exit codes of any training."""

from __future__ import annotations

import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import ended, leftovers, processes
from pty_terminals import PtyTerminal
from real_runs import until
from watched_trainings import (
    PrintingTraining,
    is_as_before,
    pids_of,
    started,
    trainers,
    until_screen,
)

LAUNCHER = [sys.executable, "-m", "unilab_metrics", "run"]
ALL_KINDS = ("BEFORE INIT", "OF PYTHON", "OF A C LIBRARY", "OF A CHILD", "OF ITS ERRORS")


@pytest.fixture
def terminal(training: PrintingTraining) -> Iterator[PtyTerminal]:
    opened = PtyTerminal(*training.launched())
    yield opened
    opened.close()


def run(*words: str, say: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCHER, *words], input=say, capture_output=True, text=True, timeout=100, check=False
    )


def test_a_command_without_a_run_is_as_if_started_alone() -> None:
    done = run("--", "sh", "-c", "cat; echo error >&2; exit 3", say="from a pipe\n")
    assert (done.returncode, done.stdout) == (3, "from a pipe\nerror\n")
    assert done.stderr.startswith(
        "unilab-metrics: this command opened no run on this machine while"
    )
    assert "unilab_metrics.init()" in done.stderr
    assert done.stderr.count("\n") == 1


def test_with_the_sidecar_off_nothing_is_added_to_a_command() -> None:
    done = run("--sidecar", "off", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "")


def test_exit_codes_are_those_of_a_shell() -> None:
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 137
    missing = run("--", "no-such-command")
    assert missing.returncode == 127
    assert missing.stderr == "unilab-metrics: no-such-command: No such file or directory\n"
    assert run("--", "/").returncode == 126
    assert run("--sidecar", "on", "--", "true").returncode == 2
    assert run("--no-such-option", "true").returncode == 2
    assert run("sh", "-c", "exit 4").returncode == 4


def test_nothing_of_a_fast_writer_is_lost_before_a_slow_reader() -> None:
    done = subprocess.run(
        f"{sys.executable} -m unilab_metrics run -- seq 1 3000000 | (sleep 1; sha256sum)"
        "; seq 1 3000000 | sha256sum",
        shell=True, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    ours, theirs = done.stdout.splitlines()
    assert ours == theirs


@pytest.mark.slow
def test_without_a_terminal_the_output_and_plain_lines_are_shown(
    training: PrintingTraining, tmp_path: Path
) -> None:
    command = training.launched("--plain-interval", "0.5")
    shown = tmp_path / "shown"
    with (
        shown.open("w") as file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True
        ) as launcher,
    ):
        until(lambda: b"iter " in shown.read_bytes())
        training.stop()
        _, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, errors
    assert errors == ""
    # As it is: reading it as text would take a carriage return for the end of a line.
    output = shown.read_bytes().decode()
    lines = output.replace("\r", "\n").splitlines()
    assert lines[0] == "BEFORE INIT"
    assert any(line.startswith("iter ") for line in lines), "on a line of its own"
    assert output.index("AFTER CLOSE") < output.index("Run directory")
    assert "\x1b" not in output
    console = training.console()
    assert [console.count(words) for words in ALL_KINDS] == [1, 1, 1, 1, 1]
    assert console.endswith("AFTER CLOSE\n")
    ended(training.run_dir)


@pytest.mark.slow
def test_on_a_terminal_the_sidecar_has_it_until_the_end(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    terminal.until_shown("BEFORE INIT")
    until_screen(terminal)
    assert "LOOP" not in terminal.screen.text
    terminal.resize(72, 24)
    terminal.until(lambda: terminal.screen.lines[0].startswith("╭"))
    training.goes_on(terminal)
    training.stop()
    assert terminal.wait() == 0
    assert is_as_before(terminal)
    last = terminal.screen.text
    assert last.index("AFTER CLOSE") < last.index("Run directory")
    assert all(words in training.console() for words in ALL_KINDS)
    ended(training.run_dir)


@pytest.mark.slow
def test_keys_that_are_typed_before_the_screen_are_for_it_and_not_echoed(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    terminal.until(lambda: not terminal.settings()[3] & termios.ECHO)  # type: ignore[operator]
    terminal.type("4~~")
    # Of the view of events and output.
    terminal.until_shown("Tab other half")
    before, _, _ = terminal.screen.written.partition(b"\x1b[?1049h")
    assert b"~" not in before
    training.stop()
    terminal.until(lambda: not terminal.screen.is_alternate)
    assert terminal.wait() == 0
    assert is_as_before(terminal)
    ended(training.run_dir)


@pytest.mark.slow
def test_ctrl_c_closes_the_sidecar_then_interrupts_the_training(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    terminal.type("\x03")
    terminal.until_shown("training goes on; Ctrl+C again stops it")
    assert is_as_before(terminal)
    training.goes_on(terminal)
    terminal.until_shown("LOOP")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert "KeyboardInterrupt" in terminal.screen.text
    assert is_as_before(terminal)
    assert ended(training.run_dir).history.ended == "stopped"


@pytest.mark.slow
def test_kills_of_sidecar_and_copier_cost_the_training_nothing_and_its_own_is_reported(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    copier = started("unilab_metrics.run.output.copier")
    copier.kill()
    started("unilab_sidecar").kill()
    terminal.until_shown("training goes on; Ctrl+C stops it")
    assert is_as_before(terminal)
    terminal.until(lambda: pids_of("unilab_metrics.run.output.copier") - {copier.pid})
    training.goes_on(terminal, by=30)
    so_far = training.console().count("LOOP")
    terminal.until(lambda: training.console().count("LOOP") > so_far)
    training.process().kill()
    assert terminal.wait() == 137
    assert is_as_before(terminal)
    assert "The command was killed by SIGKILL." in terminal.screen.text
    assert "LOOP" in terminal.screen.text
    ended(training.run_dir)


@pytest.mark.slow
def test_a_killed_launcher_costs_the_view_only(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    terminal.process.kill()
    terminal.until(lambda: not processes("unilab_sidecar"))
    terminal.read(0.2)
    assert is_as_before(terminal)
    training.goes_on(terminal, by=30)
    training.stop()
    until(lambda: training.console().endswith("AFTER CLOSE\n"))
    assert ended(training.run_dir).history.ended == "completed"


SEVERAL = """
import os, sys, time
import unilab_metrics as um
for name in "ab":
    print(f"before {name}", flush=True)
    with um.init(algorithm="ppo", run_dir=sys.argv[1] + name) as publisher:
        print(f"in {name}", flush=True)
        for iteration in range(5):
            publisher.log({"Loss/value": 1.0}, iteration=iteration)
"""


@pytest.mark.slow
def test_each_of_several_runs_has_its_own_output(tmp_path: Path) -> None:
    done = run("--", sys.executable, "-c", SEVERAL, str(tmp_path / "run-"))
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / f"run-{name}" / "console.log" for name in "ab")
    # What was printed just before a run is opened may be read only after it.
    assert first.read_text().splitlines()[:2] == ["before a", "in a"]
    assert second.read_text().splitlines()[-1] == "in b"
    assert done.stdout.count("Run directory") == 2
    until(lambda: leftovers() == [])


def test_off_leaves_the_terminal_to_the_command() -> None:
    asks = "name = input('who? '); print('hello', name); import os; print(os.isatty(1))"
    terminal = PtyTerminal(*LAUNCHER, "--sidecar", "off", "--", sys.executable, "-c", asks)
    try:
        terminal.until_shown("who?")
        terminal.type("you\r")
        assert terminal.wait() == 0
        assert "hello you" in terminal.screen.text
        assert "True" in terminal.screen.text
    finally:
        terminal.close()


def test_a_question_on_a_terminal_gets_the_end_of_the_input() -> None:
    terminal = PtyTerminal(*LAUNCHER, "--", sys.executable, "-c", "input('who? ')")
    try:
        assert terminal.wait() == 1
        assert "EOFError" in terminal.screen.text
        assert is_as_before(terminal)
    finally:
        terminal.close()


def keep_past_the_end(terminal: PtyTerminal, training: PrintingTraining) -> None:
    until_screen(terminal)
    training.stop()
    terminal.until_shown("any key stays")
    terminal.type("2")
    terminal.until_shown("Charts")


@pytest.mark.slow
def test_a_key_after_the_end_keeps_the_screen_until_q_and_changes_nothing_else(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    keep_past_the_end(terminal, training)
    time.sleep(9.0)
    terminal.read()
    assert terminal.screen.is_alternate, "longer than it stays by itself"
    assert terminal.process.poll() is None
    terminal.type("q")
    assert terminal.wait() == 0
    assert is_as_before(terminal)
    last = terminal.screen.text
    assert last.index("AFTER CLOSE") < last.index("Run directory")
    ended(training.run_dir)


@pytest.mark.slow
def test_a_screen_that_is_kept_after_the_end_closes_with_its_launcher(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    keep_past_the_end(terminal, training)
    until(lambda: not trainers())
    terminal.process.terminate()
    assert terminal.wait() == 0
    assert is_as_before(terminal)
    assert "Run directory" in terminal.screen.text
    ended(training.run_dir)
