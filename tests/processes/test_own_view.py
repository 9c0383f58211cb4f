"""``init(sidecar="auto")``: a training that takes its own terminal, and what becomes of that."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import ended, leftovers, processes
from pty_terminals import PtyTerminal, ShellTerminal
from real_runs import until
from watched_trainings import PrintingTraining, is_as_before, started, until_screen

INSIDE = ("OF PYTHON", "OF A C LIBRARY", "OF A CHILD", "OF ITS ERRORS")


@pytest.fixture
def training(tmp_path: Path) -> Iterator[PrintingTraining]:
    yield PrintingTraining(tmp_path / "run")
    for process in processes():
        process.kill()


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
    terminal.until_shown("training goes on; Ctrl+C")
    assert is_as_before(terminal)
    terminal.until_shown("LOOP")
    training.goes_on(terminal)
    terminal.type("\x03")
    assert terminal.wait(60.0) == -signal.SIGINT
    assert "KeyboardInterrupt" in terminal.screen.text
    assert is_as_before(terminal)
    assert ended(training.run_dir).history.ended == "failed"


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
        training.process().kill()
        shell.until(lambda: not processes("unilab_metrics.run.launching.companion"))
        shell.read(0.2)
        assert not shell.screen.is_alternate
        assert "LOOP" in shell.screen.text
        assert "Run directory" in shell.screen.text
        shell.run("echo usable")
        assert shell.settings() == shell.before
    finally:
        shell.close()
    ended(training.run_dir)


@pytest.mark.slow
def test_in_the_background_it_takes_no_terminal_and_prints_as_ever(
    training: PrintingTraining, tmp_path: Path
) -> None:
    with subprocess.Popen(
        training.command("auto"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        until(lambda: training.iterations() > 20, 30.0)
        training.stop()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "OF A CHILD" in output
    assert "iter " in output
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
    assert os.listdir(os.environ["XDG_RUNTIME_DIR"] + "/unilab-metrics") == []
