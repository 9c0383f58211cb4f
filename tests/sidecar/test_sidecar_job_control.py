"""The sidecar as a job of a shell: put aside, sent to the background, continued, hung up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from pty_terminals import PtyTerminal, ShellTerminal, command_line

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"
COMMAND = command_line([sys.executable, str(PROGRAM)])
PAINTED = "Losses and policy"
OFF = {"1049": False, "25": True, "7": True, "1000": False, "1003": False, "1006": False,
       "1004": False, "2004": False}  # fmt: skip


@pytest.fixture
def shell() -> Iterator[ShellTerminal]:
    opened = ShellTerminal()
    yield opened
    opened.close()


def begin(shell: ShellTerminal) -> psutil.Process:
    """The sidecar's process, once it has painted and has the keyboard."""
    shell.enter(COMMAND)
    shell.until_shown(PAINTED)
    shell.until(shell.is_raw)
    (sidecar,) = psutil.Process(shell.process.pid).children()
    return sidecar


def assert_given_back(shell: ShellTerminal) -> None:
    shell.until_prompt()
    assert shell.screen.modes() == OFF
    assert shell.settings() == shell.before
    assert PAINTED not in shell.screen.text


def assert_back(shell: PtyTerminal) -> None:
    """Painted whole and in order, on the alternate screen, with the keyboard."""
    shell.until(lambda: shell.screen.is_alternate and shell.is_raw())
    shell.until(lambda: PAINTED in shell.screen.text and is_whole(shell.screen.lines))


def is_whole(lines: list[str]) -> bool:
    return (
        lines[0].startswith("╭")
        and lines[-1].startswith("╰")
        and all(line[:1] == line[-1:] == "│" for line in lines[1:-1])
    )


def is_stopped(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def put_aside(shell: ShellTerminal, sidecar: psutil.Process, way: str) -> None:
    if way == "key":
        shell.type("\x1a")
    else:
        sidecar.send_signal(signal.SIGTSTP)


@pytest.mark.parametrize("way", ["key", pytest.param("signal", marks=pytest.mark.slow)])
def test_put_aside_it_gives_the_terminal_back_and_fg_paints_it_anew(shell: ShellTerminal, way: str):
    sidecar = begin(shell)
    put_aside(shell, sidecar, way)
    assert_given_back(shell)
    assert is_stopped(sidecar)
    shell.run("echo between")
    assert "between" in shell.screen.text
    shell.resize(120, 40)
    shell.enter("fg")
    assert_back(shell)
    assert len(shell.screen.lines) == 40
    put_aside(shell, sidecar, way)
    assert_given_back(shell)
    shell.enter("fg")
    assert_back(shell)
    shell.type("q")
    assert_given_back(shell)
    assert not sidecar.is_running()


@pytest.mark.slow
def test_stopped_without_notice_it_comes_back_whole(shell: ShellTerminal):
    sidecar = begin(shell)
    before = shell.prompts()
    sidecar.send_signal(signal.SIGSTOP)
    shell.until_prompted(before)
    assert shell.front_group() == shell.process.pid
    shell.run("echo between")
    shell.enter("fg")
    shell.until(lambda: shell.screen.written.count(b"\x1b[?1049h") >= 2)
    assert_back(shell)
    shell.type("q")
    assert_given_back(shell)


@pytest.mark.slow
def test_continued_without_a_stop_it_goes_on(shell: ShellTerminal):
    sidecar = begin(shell)
    threads = sidecar.num_threads()
    for _ in range(5):
        start = len(shell.screen.written)
        sidecar.send_signal(signal.SIGCONT)
        shell.until(partial(lambda n: b"\x1b[?1049h" in shell.screen.written[n:], start))
        assert_back(shell)
    # It may have come to need another one since it was painted, but none for each time.
    assert sidecar.num_threads() < threads + 5
    shell.type("q")
    assert_given_back(shell)


@pytest.mark.slow
def test_in_the_background_it_neither_draws_nor_spins_nor_stops(shell: ShellTerminal):
    sidecar = begin(shell)
    shell.type("\x1a")
    shell.until_prompt()
    shell.run("bg")
    shell.until(lambda: not is_stopped(sidecar))
    before = sidecar.cpu_times()
    shell.run("echo one")
    assert shell.quiet_for(2.0) == b""
    shell.run("echo two")
    after = sidecar.cpu_times()
    assert after.user + after.system - before.user - before.system < 1.0
    assert not is_stopped(sidecar)
    assert shell.screen.modes() == OFF
    shell.enter("fg")
    assert_back(shell)
    shell.type("q")
    assert_given_back(shell)


@pytest.mark.slow
def test_a_shell_that_takes_the_terminal_without_a_word_is_left_alone(shell: ShellTerminal):
    """As when only the leader of a job is stopped, and the sidecar is another of its processes."""
    code = "import os, subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    shell.enter(command_line([sys.executable, "-c", code, sys.executable, str(PROGRAM)]))
    shell.until_shown(PAINTED)
    shell.until(shell.is_raw)
    (leader,) = psutil.Process(shell.process.pid).children()
    (sidecar,) = leader.children()
    before = shell.prompts()
    leader.send_signal(signal.SIGSTOP)
    shell.until_prompted(before)
    # The shell's prompt may have come before the sidecar noticed.
    shell.until(lambda: not shell.screen.is_alternate)
    shell.enter("echo $((6*7))")
    shell.until_shown("42")
    shell.until_prompt()
    assert PAINTED not in shell.screen.text
    assert shell.quiet_for(1.2) == b""
    assert not is_stopped(sidecar)
    shell.enter("fg")
    assert_back(shell)
    shell.type("q")
    assert_given_back(shell)


@pytest.mark.slow
def test_as_a_part_of_another_job_ctrl_z_stops_nothing_and_says_so(shell: ShellTerminal):
    code = "import os, subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    shell.enter(command_line([sys.executable, "-c", code, sys.executable, str(PROGRAM)]))
    shell.until_shown(PAINTED)
    shell.until(shell.is_raw)
    shell.type("\x1a")
    shell.until_shown("Ctrl+Z stops nothing here · q close")
    (leader,) = psutil.Process(shell.process.pid).children(recursive=False)
    assert not any(is_stopped(process) for process in (leader, *leader.children()))
    shell.until(lambda: "Ctrl+Z stops nothing" not in shell.screen.text)
    assert_back(shell)
    shell.type("q")
    assert_given_back(shell)


@pytest.mark.slow
def test_without_a_shell_ctrl_z_does_not_leave_a_dead_window(tmp_path: Path):
    terminal = PtyTerminal(sys.executable, str(PROGRAM))
    try:
        terminal.until_shown(PAINTED)
        terminal.until(terminal.is_raw)
        terminal.type("\x1a")
        terminal.until_shown("Ctrl+Z stops nothing here")
        os.kill(terminal.process.pid, signal.SIGTSTP)
        terminal.until(lambda: terminal.screen.written.count(b"\x1b[?1049h") >= 2)
        terminal.until_shown(PAINTED)
        terminal.type("q")
        assert terminal.wait() == 0
        assert terminal.screen.modes() == OFF
    finally:
        terminal.close()


@pytest.mark.slow
@pytest.mark.parametrize("ignores", [False, True])
def test_a_closed_window_ends_it(ignores: bool):
    trap = ["-c", "trap '' HUP; exec \"$@\"", "sh"] if ignores else ["-c", 'exec "$@"', "sh"]
    terminal = PtyTerminal("sh", *trap, sys.executable, str(PROGRAM))
    try:
        terminal.until_shown(PAINTED)
        terminal.hang_up()
        assert terminal.process.wait(15) == 128 + signal.SIGHUP
    finally:
        terminal.close()


ODD_INPUT = [
    b"\x1b[M " + bytes((0xF0, 0x9F)),
    b"\x1b[M q!",
    b"\x1b[M",
    b"   ",
    bytes(range(128, 256)),
    b"\x1b[99999999999u\x1b[<1;2;3M\x1b]52;c;\x07",
    b"\x1b[200~q\x1b[201~",
]


@pytest.mark.slow
def test_no_byte_that_comes_in_ends_it(shell: ShellTerminal):
    """X10 mouse reports beyond column 95 are no valid UTF-8; a click in column 81 is no ``q``."""
    begin(shell)
    for typed in ODD_INPUT:
        shell.type(typed)
        start = len(shell.screen.written)
        shell.until(partial(lambda n: len(shell.screen.written) > n + 200, start))
    assert_back(shell)
    assert "Traceback" not in shell.screen.text
    shell.type("q")
    assert_given_back(shell)
