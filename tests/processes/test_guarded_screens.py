"""A view that a shell has started: what is typed early, and the terminal however the view ends."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cut_off_run import whole_run
from loopback_sshd import LoopbackSshd
from pty_terminals import PtyTerminal, ShellTerminal, command_line
from runs_over_ssh import places, training_below

pytestmark = pytest.mark.slow
ATTACH = [sys.executable, "-m", "unilab_metrics", "attach"]


@pytest.fixture
def shell() -> Iterator[ShellTerminal]:
    made = ShellTerminal(columns=120)
    yield made
    made.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    whole_run(tmp_path / "run")
    return tmp_path / "run"


def screen_of(shell: ShellTerminal) -> psutil.Process:
    """The process that draws, once it does."""
    shell.until_shown("run ended")
    (guard,) = psutil.Process(shell.process.pid).children()
    (screen,) = [one for one in guard.children() if "unilab_sidecar" in one.cmdline()]
    return screen


def is_echoing(terminal: PtyTerminal) -> bool:
    local = terminal.settings()[3]
    assert isinstance(local, int)
    return bool(local & termios.ECHO)


def is_sound(shell: ShellTerminal, before: list[object]) -> None:
    shell.until_prompt()
    shell.until(lambda: not shell.screen.is_alternate)
    on = shell.screen.modes()
    assert (on["1049"], on["25"], on["1000"], on["1004"]) == (False, True, False, False)
    shell.enter("echo so'un'd")
    shell.until_shown("\nsound")
    # A shell that edits no lines has no settings of its own.
    assert shell.settings() == before


@pytest.mark.parametrize(
    ("whom", "number", "status"),
    [
        ("screen", signal.SIGKILL, 137),
        ("screen", signal.SIGTERM, 143),
        ("guard", signal.SIGKILL, 137),
        ("guard", signal.SIGHUP, 129),
        ("guard", signal.SIGQUIT, 131),
    ],
)
def test_the_shell_gets_its_terminal_back_as_it_was(
    shell: ShellTerminal, run_dir: Path, whom: str, number: signal.Signals, status: int
) -> None:
    before = shell.settings()
    shell.enter(command_line([*ATTACH, str(run_dir)]))
    screen = screen_of(shell)
    guard = screen.parent()
    assert guard is not None
    (screen if whom == "screen" else guard).send_signal(number)
    if (whom, number) == ("guard", signal.SIGKILL):
        # The shell has drawn its prompt already, on the screen that goes.
        shell.until(lambda: not screen.is_running() and not shell.screen.is_alternate)
        shell.type("\r")
    shell.until_prompt()
    shell.enter("echo status $?")
    shell.until_shown(f"\nstatus {status}")
    is_sound(shell, before)
    shell.until(lambda: not screen.is_running() and not guard.is_running())


def test_a_screen_that_is_closed_with_ctrl_c_has_not_failed(
    shell: ShellTerminal, run_dir: Path
) -> None:
    before = shell.settings()
    shell.enter(command_line([*ATTACH, str(run_dir)]) + "; echo status $?")
    screen_of(shell)
    shell.type("\x03")
    shell.until_shown("status 0")
    is_sound(shell, before)


def test_ctrl_z_and_fg_work_as_with_any_program(shell: ShellTerminal, run_dir: Path) -> None:
    before = shell.settings()
    shell.enter(command_line([*ATTACH, str(run_dir)]))
    screen = screen_of(shell)
    for _ in range(2):
        shell.type("\x1a")
        is_sound(shell, before)
        assert screen.status() == psutil.STATUS_STOPPED
        shell.enter("fg")
        shell.until(lambda: shell.screen.is_alternate)
        shell.until_shown("run ended")
        assert shell.is_raw()
    shell.type("\x1a")
    is_sound(shell, before)
    shell.enter("bg")
    shell.until(lambda: screen.status() != psutil.STATUS_STOPPED)
    assert b"\x1b[?1049h" not in shell.quiet_for(1.5)
    is_sound(shell, before)
    shell.enter("fg")
    shell.until(lambda: shell.screen.is_alternate)
    shell.type("q")
    shell.until_prompt()
    shell.enter("echo status $?")
    shell.until_shown("\nstatus 0")
    is_sound(shell, before)


def test_keys_that_are_typed_early_are_not_echoed_and_not_lost(run_dir: Path) -> None:
    view = PtyTerminal(*ATTACH, str(run_dir), columns=120)
    try:
        view.until(lambda: not is_echoing(view))
        view.type("5\r")
        view.until_shown("5 BUS")
        before, _, _ = view.screen.written.partition(b"\x1b[?1049h")
        assert before.strip() == b""
        view.type("q")
        assert view.wait() == 0
        assert view.settings() == view.before
    finally:
        view.close()


def test_an_early_ctrl_c_ends_it_without_a_word(run_dir: Path) -> None:
    view = PtyTerminal(*ATTACH, str(run_dir))
    try:
        view.until(lambda: not is_echoing(view))
        view.type("\x03")
        assert view.wait() == -signal.SIGINT
        assert view.screen.text.strip() == ""
        assert view.settings() == view.before
    finally:
        view.close()


@pytest.mark.parametrize("options", [("--plain", "--once"), ("--lines",)])
def test_lines_of_text_leave_the_terminal_alone(run_dir: Path, options: tuple[str, ...]) -> None:
    view = PtyTerminal(*ATTACH, str(run_dir), *options)
    try:
        view.type("typed\r")
        settings: list[object] = []
        view.until(lambda: settings.append(view.settings()) or view.process.poll() is not None)
        view.read(0.2)
        assert all(one == view.before for one in settings)
        assert "typed" in view.screen.text
    finally:
        view.close()


def test_what_cannot_be_shown_leaves_the_terminal_as_it_was(
    shell: ShellTerminal, tmp_path: Path
) -> None:
    before = shell.settings()
    (tmp_path / "run" / "bus").mkdir(parents=True)
    (tmp_path / "run" / "bus").chmod(0o700)
    shell.enter(command_line([*ATTACH, str(tmp_path / "run")]) + "; echo status $?")
    shell.until_shown("status 4")
    assert shell.settings() == before


def test_nothing_is_left_when_the_one_that_the_shell_knows_is_killed(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    with training_below(short_path) as run_dir:
        view = PtyTerminal(*ATTACH, f"box:{run_dir}")
        try:
            view.until(lambda: re.search(r"iter \d", view.screen.text))
            left = psutil.Process(view.process.pid).children(recursive=True)
            assert len(left) > 1
            os.kill(view.process.pid, signal.SIGKILL)
            view.until(lambda: not any(one.is_running() for one in left))
            view.until(lambda: places(sshd) == [])
        finally:
            view.close()
