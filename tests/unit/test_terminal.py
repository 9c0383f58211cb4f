"""Who may take a terminal, and what the end of a log says."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios

import pytest

from unilab_metrics.run.launching import terminal
from unilab_metrics.run.launching.terminal import TerminalState, can_take_terminal
from unilab_metrics.run.launching.view import View

GOOD = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    "environ",
    [{}, {"TERM": ""}, {"TERM": "dumb"}, {**GOOD, "CI": "true"}, {**GOOD, "CI": "1"}],
)
def test_no_screen_where_the_environment_speaks_against_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_foreground_terminal(monkeypatch)
    assert not can_take_terminal(environ)


@pytest.mark.parametrize("environ", [GOOD, {**GOOD, "CI": ""}, {**GOOD, "CI": "false"}])
def test_a_foreground_terminal_may_be_taken(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_foreground_terminal(monkeypatch)
    assert can_take_terminal(environ)


def test_no_screen_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_foreground_terminal(monkeypatch)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
    assert not can_take_terminal(GOOD)


@pytest.mark.parametrize("piped", [0, 1, 2])
def test_no_screen_when_one_of_the_three_is_no_terminal(
    piped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_foreground_terminal(monkeypatch)
    monkeypatch.setattr(os, "isatty", lambda fd: fd != piped)
    assert not can_take_terminal(GOOD)


@pytest.mark.parametrize("modes", [True, False])
def test_settings_come_back_and_modes_only_when_asked(modes: bool) -> None:
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        state = TerminalState(theirs)
        raw = termios.tcgetattr(theirs)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(theirs, termios.TCSANOW, raw)
        state.restore(modes=modes)
        assert termios.tcgetattr(theirs) == before
        os.write(theirs, b"$")
        output = ""
        while not output.endswith("$"):
            output += os.read(ours, 1000).decode()
        assert output == (terminal.RESET_MODES if modes else "") + "$"
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_settings_of_a_shell_in_front_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    try:
        state = TerminalState(theirs)
        raw = termios.tcgetattr(theirs)
        raw[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(theirs, termios.TCSANOW, raw)
        raw = termios.tcgetattr(theirs)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
        state.restore(modes=False)
        assert termios.tcgetattr(theirs) == raw
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        state.restore(modes=False)
        assert termios.tcgetattr(theirs) != raw
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_view_that_was_put_aside_ends_in_order() -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(7));"
        "os.write(1, b'-'); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGSTOP)
        View(process, owns_screen=True).close(0.0)
    assert process.returncode == 7


def test_a_terminal_that_is_gone_is_no_error() -> None:
    ours, theirs = pty.openpty()
    state = TerminalState(theirs)
    os.close(ours)
    state.restore(modes=True)
    os.close(theirs)
    state.restore(modes=True)


def _pretend_foreground_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: True)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
