"""BR-59: no colour where none is wanted, and no more colours than a terminal announces."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pty_terminals import PtyTerminal

from unilab_sidecar.terminal.charsets import shows_unicode
from unilab_sidecar.terminal.colours import has_few_colours, usual_theme, wants_no_colour

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"
_SGR = re.compile(rb"\x1b\[([0-9;:]*)m")
DIRECT = (38, 48)


def colours(written: bytes) -> set[int]:
    """The codes of colours among all that set how text looks; ``38`` and ``48`` take arguments."""
    found: set[int] = set()
    for match in _SGR.finditer(written):
        codes = [int(code or 0) for code in re.split(rb"[;:]", match[1])]
        while codes:
            code = codes.pop(0)
            if code in DIRECT:
                found.add(code)
                del codes[: 2 if codes[:1] == [5] else 4]
            elif 30 <= code <= 37 or 40 <= code <= 47 or 90 <= code <= 107:
                found.add(code)
    return found


@contextmanager
def shown(*options: str, **environ: str | None) -> Iterator[PtyTerminal]:
    terminal = PtyTerminal(
        sys.executable, str(PROGRAM), *options, columns=100, rows=30, COLORTERM=None, **environ
    )
    try:
        terminal.until_shown("Losses and policy")
        terminal.until_shown("q close")
        yield terminal
        terminal.type("q")
        assert terminal.wait() == 0
    finally:
        terminal.close()


@pytest.mark.slow
def test_br59_no_color_means_none_and_the_state_is_still_there() -> None:
    with shown(NO_COLOR="1") as terminal:
        for key, words in (("2", "Train/mean_reward"), ("3", "by rank"), ("5", "Positions")):
            terminal.type(key)
            terminal.until_shown(words)
        terminal.until_shown("● live")
    assert colours(terminal.screen.written) == set()
    # Bold is no colour.
    assert b"\x1b[1m" in terminal.screen.written


@pytest.mark.slow
def test_br59_an_empty_no_color_takes_none_away() -> None:
    with shown(NO_COLOR="") as terminal:
        pass
    assert 38 in colours(terminal.screen.written)


@pytest.mark.slow
def test_br59_a_terminal_without_truecolour_gets_none() -> None:
    with shown(TERM="screen") as terminal:
        pass
    found = colours(terminal.screen.written)
    assert found
    assert not found & set(DIRECT)
    with shown(TERM="xterm-256color") as terminal:
        pass
    assert b"38;5;" in terminal.screen.written
    assert b"38;2;" not in terminal.screen.written


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_ascii() -> None:
    for options, environ in ((("--no-unicode",), {}), ((), {"LC_ALL": "C"})):
        with shown(*options, **environ) as terminal:  # type: ignore[arg-type]
            for key, words in (("2", "Train/mean_reward"), ("3", "by rank"), ("4", "Alerts")):
                terminal.type(key)
                terminal.until_shown(words)
            terminal.type("1")
            terminal.until_shown("* 4 live")
            assert "+- SAC - cart_pole_balance" in terminal.screen.text
        assert terminal.screen.written.isascii()


def test_br59_the_environment_decides_about_colours() -> None:
    assert wants_no_colour({"NO_COLOR": "1"})
    assert not wants_no_colour({"NO_COLOR": ""})
    assert not wants_no_colour({})
    for environ, theme in (
        ({"TERM": "screen"}, "ansi"),
        ({"TERM": "xterm"}, "ansi"),
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "screen", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "ansi"),
        ({}, "dark"),
    ):
        assert usual_theme(environ) == theme, environ
    assert has_few_colours({"TERM": "xterm-16color"})


@pytest.mark.parametrize(
    ("environ", "unicode"),
    [
        ({}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "de_DE.ISO-8859-15@euro"}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "zh_CN.GBK", "LC_ALL": "zh_CN.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, False),
        # Python sets the first of these itself where it finds the C locale.
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, True),
    ],
)
def test_the_locale_decides_about_unicode(environ: dict[str, str], unicode: bool) -> None:
    assert shows_unicode(environ) == unicode
