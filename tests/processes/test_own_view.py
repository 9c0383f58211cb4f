"""``init(sidecar="auto")``: a training that takes its own terminal, and what becomes of that."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from case_runs import ended, holds_files, leftovers, processes
from pty_terminals import PtyTerminal, ShellTerminal
from real_runs import until
from watched_trainings import PrintingTraining, is_as_before, started, until_screen

from unilab_metrics.storage.places import runtime_directory

INSIDE = ("OF PYTHON", "OF A C LIBRARY", "OF A CHILD", "OF ITS ERRORS")


@pytest.fixture
def terminal(training: PrintingTraining) -> Iterator[PtyTerminal]:
    opened = PtyTerminal(*training.command("auto"))
    yield opened
    opened.close()


@pytest.mark.slow
def test_the_sidecar_has_the_terminal_until_close(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    terminal.until_shown("BEFORE INIT")
    until_screen(terminal)
    assert "LOOP" not in terminal.screen.text
    training.goes_on(terminal)
    training.stop()
    assert terminal.wait(60.0) == 0
    assert is_as_before(terminal)
    shown = terminal.screen.text
    assert shown.index("LOOP") < shown.index("Status         completed") < shown.index("AFTER")
    assert re.search(r"^TensorBoard    [\d,]+ tags, .*points", shown, re.MULTILINE)
    console = training.console()
    assert [console.count(words) for words in INSIDE] == [1, 1, 1, 1]
    assert "BEFORE INIT" not in console
    ended(training.run_dir)


@pytest.mark.slow
def test_an_end_without_any_close_leaves_the_terminal_as_before(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    training.stop("os._exit")
    assert terminal.wait(60.0) == 5
    terminal.until(lambda: not processes("unilab_metrics.run.launching.companion"))
    terminal.read(0.2)
    assert is_as_before(terminal)
    terminal.until_shown("LOOP")
    ended(training.run_dir)


@pytest.mark.slow
def test_ctrl_c_closes_the_sidecar_and_ctrl_c_again_stops_the_training(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    terminal.type("\x03")
    terminal.until_shown("training goes on; Ctrl+C again stops it")
    assert is_as_before(terminal)
    terminal.until_shown("LOOP")
    training.goes_on(terminal)
    terminal.type("\x03")
    assert terminal.wait(60.0) == -signal.SIGINT
    assert "KeyboardInterrupt" in terminal.screen.text
    assert is_as_before(terminal)
    assert ended(training.run_dir).history.ended == "stopped"


@pytest.mark.slow
def test_ctrl_c_while_the_end_waits_for_the_report_leaves_nobody_behind(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    companion = started("unilab_metrics.run.launching.companion")
    companion.suspend()
    training.stop()
    # It has delivered all, and nothing else is left to wait for.
    terminal.until(lambda: "AFTER CLOSE" not in training.console() and has_summary(training))
    process = training.process()
    process.send_signal(signal.SIGINT)
    terminal.until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    # It would print over the shell's prompt, once it goes on.
    until(lambda: not holds_files(companion))
    assert terminal.wait(60.0) == -signal.SIGINT
    assert is_as_before(terminal)
    assert terminal.screen.text.count("KeyboardInterrupt") == 1
    ended(training.run_dir)


def has_summary(training: PrintingTraining) -> bool:
    return (training.run_dir / "run_summary.json").exists()


@pytest.mark.slow
def test_kill_9_of_copier_sidecar_and_companion_costs_the_training_nothing(
    terminal: PtyTerminal, training: PrintingTraining
) -> None:
    until_screen(terminal)
    started("unilab_metrics.run.output.copier").kill()
    training.goes_on(terminal)
    until(lambda: len(processes("unilab_metrics.run.output.copier")) == 1)
    started("unilab_metrics.run.output.copier").suspend()
    training.goes_on(terminal, by=100)
    sidecar = started("unilab_sidecar")
    companion = started("unilab_metrics.run.launching.companion")
    companion.kill()
    sidecar.kill()
    # Its output is its own again.
    terminal.until_shown("LOOP")
    assert is_as_before(terminal)
    training.goes_on(terminal)
    training.stop()
    assert terminal.wait(60.0) == 0
    assert ended(training.run_dir).history.ended == "completed"


@pytest.mark.slow
def test_kill_9_of_the_training_under_a_shell(training: PrintingTraining) -> None:
    shell = ShellTerminal()
    try:
        shell.enter(training.line("auto"))
        until_screen(shell)
        before = shell.prompts()
        training.process().kill()
        shell.until(lambda: not processes("unilab_metrics.run.launching.companion"))
        shell.until_prompted(before)
        shell.until(lambda: not shell.screen.is_alternate)
        shell.until_shown("LOOP")
        shell.until_shown("Run directory")
        shell.run("echo usable")
        assert shell.settings() == shell.before
    finally:
        shell.close()
    ended(training.run_dir)


@pytest.mark.slow
def test_in_the_background_it_takes_no_terminal_and_prints_as_ever(
    training: PrintingTraining, tmp_path: Path
) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as sink, subprocess.Popen(
        training.command("auto"), stdin=subprocess.DEVNULL, stdout=sink,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            until(lambda: "iter " in printed.read_text(), 60.0)
        finally:
            training.stop()
        assert process.wait(60) == 0
    output = printed.read_text()
    assert "OF A CHILD" in output
    assert output.count(f"run directory: {training.run_dir}\n") == 1
    assert output.index("run directory: ") < output.index("iter ")
    assert "\x1b" not in output
    assert training.console() == ""
    ended(training.run_dir)


@pytest.mark.slow
def test_under_a_launcher_of_ours_the_launcher_shows_the_run(
    training: PrintingTraining,
) -> None:
    launcher = training.launched()[: -len(training.command())]
    terminal = PtyTerminal(*launcher, *training.command("auto"))
    try:
        until_screen(terminal)
        assert not processes("unilab_metrics.run.launching.companion")
        assert len(processes("unilab_sidecar")) == 1
        training.stop()
        assert terminal.wait(60.0) == 0
        assert is_as_before(terminal)
        ended(training.run_dir)
    finally:
        terminal.close()
    until(lambda: leftovers() == [])
    assert os.listdir(runtime_directory()) == []
