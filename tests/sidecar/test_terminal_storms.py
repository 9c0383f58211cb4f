"""The sidecar in terminals that change faster than it paints, that lie, and that know little."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pty_terminals import PtyTerminal, ShellTerminal, command_line

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"
PAINTED = "Losses and policy"
KEYS = "1234520 ?\x1b/\x1b\t\rtt:\x1bjkh"
SIZES = [(1, 1), (300, 100), (1, 100), (300, 1), (2, 2), (95, 24), (96, 24), (119, 40), (120, 40)]


@pytest.fixture
def opened() -> Iterator[Callable[..., PtyTerminal]]:
    made: list[PtyTerminal] = []

    def make(columns: int = 100, rows: int = 30, **environ: str | None) -> PtyTerminal:
        program = (sys.executable, str(PROGRAM))
        made.append(PtyTerminal(*program, columns=columns, rows=rows, **environ))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


def is_whole(terminal: PtyTerminal) -> bool:
    lines = terminal.screen.lines
    return (
        len(lines) == terminal.screen.rows
        and lines[0].startswith("╭")
        and lines[-1].startswith("╰")
        and all(line[:1] == line[-1:] == "│" for line in lines[1:-1])
        and {len(line) for line in lines} == {terminal.screen.columns}
    )


def is_at_first(terminal: PtyTerminal) -> bool:
    """Whether the first view is there; if not, one step back has been made."""
    terminal.read(0.2)
    if PAINTED in terminal.screen.text and is_whole(terminal):
        return True
    # A lone Esc is known to be one when nothing has followed for a moment.
    terminal.type("\x1b")
    terminal.quiet_for(0.4)
    terminal.type("1")
    terminal.quiet_for(0.4)
    return False


def stands_still(terminal: PtyTerminal) -> bool:
    """Whether it is paused and paints no more; if not, it has been asked to pause unless it does.
    Keys that were typed before may still come, and another Space with them."""
    is_quiet = terminal.quiet_for(1.0) == b""
    is_paused = "PAUSED" in terminal.screen.text
    if not is_paused:
        terminal.type(" ")
        terminal.quiet_for(1.0)
    return is_paused and is_quiet


def leave(terminal: PtyTerminal) -> None:
    terminal.type("q")
    assert terminal.wait() == 0
    assert terminal.settings() == terminal.before
    assert b"Traceback" not in terminal.screen.written


@pytest.mark.slow
def test_a_storm_of_sizes_and_keys_ends_on_the_right_screen(
    opened: Callable[..., PtyTerminal],
) -> None:
    terminal = opened()
    terminal.until_shown(PAINTED)
    chance = random.Random(5)
    for number in range(400):
        size = chance.randint(1, 300), chance.randint(1, 100)
        terminal.resize(*(SIZES[number % 50] if number % 50 < len(SIZES) else size))
        terminal.type(chance.choice(KEYS))
        terminal.pass_over()
        time.sleep(0.005)
    terminal.resize(120, 40)
    terminal.until(lambda: is_at_first(terminal) and stands_still(terminal), 90.0)
    # Nothing moves any more: painted anew it has to be the same, cell by cell.
    before = terminal.screen.lines
    painted = terminal.screen.written.count(b"\x1b[?1049h")
    psutil.Process(terminal.process.pid).send_signal(signal.SIGCONT)
    terminal.until(lambda: terminal.screen.written.count(b"\x1b[?1049h") > painted)
    terminal.until(lambda: terminal.screen.lines == before)
    leave(terminal)


@pytest.mark.slow
def test_the_size_is_the_terminals_whatever_the_environment_says(
    opened: Callable[..., PtyTerminal],
) -> None:
    terminal = opened(COLUMNS="40", LINES="12")
    terminal.until(lambda: is_whole(terminal))
    terminal.resize(130, 40)
    terminal.until(lambda: is_whole(terminal))
    leave(terminal)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environ",
    [
        {"TERM": "vt100", "LANG": None, "LC_ALL": "POSIX"},
        {"TERM": "linux", "LANG": "C"},
        {"TERM": "no-such-terminal", "NO_COLOR": "1", "COLORTERM": None},
    ],
)
def test_little_known_terminals_show_it(
    opened: Callable[..., PtyTerminal], environ: dict[str, str | None]
) -> None:
    terminal = opened(**environ)
    terminal.until_shown(PAINTED)
    is_plain = "C" in environ.values() or "POSIX" in environ.values()
    terminal.until(lambda: not is_plain or terminal.screen.text.isascii())
    leave(terminal)


@pytest.mark.slow
def test_a_paste_of_any_length_is_no_keys_and_a_flood_of_keys_delays_no_end(
    opened: Callable[..., PtyTerminal],
) -> None:
    terminal = opened()
    terminal.until_shown(PAINTED)
    for piece in (b"\x1b[200~", *[b"q\n4K" * 1000] * 30, b"\x1b[201~"):
        terminal.type(piece)
        terminal.pass_over()
    terminal.quiet_for(0.5)
    assert terminal.process.poll() is None
    terminal.type("?")
    terminal.until_shown("Space")
    for _ in range(10):
        terminal.type(b"x?" * 2000)
        terminal.pass_over()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == 128 + signal.SIGTERM
    assert terminal.settings() == terminal.before


SPLIT = [
    (b"\x1b[<35;2", b"00;5M"),
    (b"\x1b[<0;1;1M\x1b[<0;1;1m", b""),
    (b"\x1b[M \xff", b"\xff"),
    (b"\xf0\x9f", b"\x98\x80"),
    (b"\xed\xa0\x80", b"\xc3"),
    (b"\x1bO", b"P\x1b[1;5"),
    (b"D\x1b]11;rgb:ff", b"ff/0000/0000\x1b\\"),
]


@pytest.mark.slow
def test_reports_and_characters_in_pieces_neither_end_nor_disturb_it(
    opened: Callable[..., PtyTerminal],
) -> None:
    terminal = opened(150, 40)
    terminal.until_shown(PAINTED)
    for _ in range(3):
        for pieces in SPLIT:
            for piece in pieces:
                terminal.type(piece)
                terminal.quiet_for(0.02)
    terminal.quiet_for(0.5)
    terminal.until(lambda: is_at_first(terminal))
    leave(terminal)


@pytest.mark.slow
def test_after_a_kill_9_the_shell_can_be_typed_into_and_reset_clears_up() -> None:
    """Nobody who could put the terminal in order is left: a shell started it itself."""
    shell = ShellTerminal()
    try:
        shell.enter(command_line([sys.executable, str(PROGRAM)]))
        shell.until_shown(PAINTED)
        shell.until(shell.is_raw)
        (sidecar,) = psutil.Process(shell.process.pid).children()
        prompts = shell.prompts()
        sidecar.kill()
        shell.until_prompted(prompts)
        shell.run("echo still $((40+2))")
        assert b"still 42" in shell.screen.written
        assert shell.settings() == shell.before
        shell.run(r"printf '\033[?1049l\033[?25h\033[?1004l\033[?2004l\033[?7h'")
        assert not shell.screen.is_alternate
        assert shell.screen.modes()["25"]
    finally:
        shell.close()
