"""Trainings and views where there is no terminal, or only part of one: no screen, no escapes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import kill_processes
from pty_terminals import PtyTerminal
from real_runs import until
from shell_trainings import ShellTraining
from toy_run import ToyRun

PARTS = {
    "only input": ">out 2>err",
    "only output": "</dev/null 2>err",
    "only errors": "</dev/null >out",
    "no input": "</dev/null",
    "no output": ">out",
    "no errors": "2>err",
    "nothing": "</dev/null >out 2>err",
    "errors closed": "2>&-",
    "input closed": "<&-",
}


@pytest.fixture
def ended_run(tmp_path: Path) -> Iterator[Path]:
    run = ToyRun(tmp_path / "run", tmp_path)
    run.updates(3)
    run.end()
    yield run.run_dir
    run.close()


def written(terminal: PtyTerminal, folder: Path) -> bytes:
    files = [folder / name for name in ("out", "err")]
    return terminal.screen.written + b"".join(f.read_bytes() for f in files if f.exists())


def shown_as_lines(run_dir: Path, *parts: str, term: str | None = "xterm") -> None:
    """The view of an ended run in as many terminals; each redirected, at the same time."""
    command = [sys.executable, "-m", "unilab_sidecar", str(run_dir), "--launched"]
    folders = [Path(f"at-{number}") for number in range(len(parts))]
    terminals: list[PtyTerminal] = []
    try:
        for folder, part in zip(folders, parts, strict=True):
            folder.mkdir()
            code = f'cd "$0" && exec "$@" {part}'
            terminals.append(PtyTerminal("sh", "-c", code, str(folder), *command, TERM=term))
        for folder, part, terminal in zip(folders, parts, terminals, strict=True):
            # As many programs as there are parts start side by side.
            assert terminal.wait(90.0) == 0, part
            assert b"\x1b" not in written(terminal, folder), part
            assert b"run ended: completed" in written(terminal, folder), part
    finally:
        for terminal in terminals:
            terminal.close()


def test_errors_that_go_elsewhere_take_the_screen_with_them(ended_run: Path) -> None:
    shown_as_lines(ended_run, PARTS["only errors"], PARTS["no errors"])


@pytest.mark.slow
def test_a_view_with_a_part_of_a_terminal_is_lines_of_text(ended_run: Path) -> None:
    shown_as_lines(ended_run, *PARTS.values())


@pytest.mark.slow
@pytest.mark.parametrize("term", ["", "dumb", None])
def test_a_view_without_a_kind_of_terminal_is_lines_of_text(
    term: str | None, ended_run: Path
) -> None:
    shown_as_lines(ended_run, "", term=term)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[ShellTraining]:
    yield ShellTraining(tmp_path / "run")
    kill_processes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    ["{} <&- >&- 2>&-", "nohup {} </dev/null >out 2>err"],
)
def test_a_training_without_a_terminal_is_whole(how: str, training: ShellTraining) -> None:
    with subprocess.Popen(
        ["sh", "-c", how.format(training.launched) + "; true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            until(lambda: training.iterations() > 30, 60.0)
        finally:
            training.stop()
        assert shell.wait(60) == 0
    training.assert_whole()
    if ">out" in how:
        words = Path("out").read_bytes()
        assert b"\x1b" not in words
        assert b"Run directory" in words


@pytest.mark.slow
@pytest.mark.parametrize("how", ["setsid -w {}"])
def test_a_training_in_a_terminal_that_it_may_not_take(how: str, training: ShellTraining) -> None:
    terminal = PtyTerminal("sh", "-c", how.format(training.launched) + "; true")
    try:
        terminal.until(lambda: training.iterations() > 30, 60.0)
        training.stop()
        assert terminal.wait(60.0) == 0
        assert b"\x1b" not in written(terminal, Path())
        assert b"Run directory" in written(terminal, Path())
    finally:
        terminal.close()
    training.assert_whole()
