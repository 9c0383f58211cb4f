"""Keys that are typed before a launcher's screen is there: kept, not echoed, and the terminal is as
before however the wait ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unilab_metrics import typed_ahead
from unilab_metrics.run.launching import kept_keys as kept
from unilab_metrics.run.launching import show as show_module
from unilab_metrics.run.launching.show import Kind, Show
from unilab_metrics.run.launching.terminal import TerminalState


class Desk:
    """A terminal of which the program under test has ``fd``."""

    def __init__(self) -> None:
        self.ours, self.fd = pty.openpty()
        self.before = termios.tcgetattr(self.fd)

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.fd) == self.before

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    @property
    def quits(self) -> bool:
        """Whether Ctrl+\\ is a signal."""
        return termios.tcgetattr(self.fd)[6][termios.VQUIT] == self.before[6][termios.VQUIT]

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.fd)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    yield made
    made.close()


def test_settings_survive_a_command_line(desk: Desk) -> None:
    told = TerminalState(desk.fd).told()
    typed_ahead.keep_keys(desk.fd)
    assert not desk.is_as_before
    typed_ahead.put_back(typed_ahead.heard(told), desk.fd)
    assert desk.is_as_before
    with pytest.raises(ValueError, match="invalid literal"):
        typed_ahead.heard("1,x")


def test_while_a_screen_comes_up_ctrl_backslash_is_a_key_for_it(desk: Desk) -> None:
    terminal = TerminalState(desk.fd)
    terminal.keep_keys(is_starting=True)
    os.write(desk.ours, b"\x1cq")
    assert os.read(desk.fd, 8) == b"\x1cq"
    terminal.restore(modes=False)
    assert desk.is_as_before


class Screen:
    """In the place of a ``View``, until it is told to end."""

    owns_screen, is_kept = True, False

    def __init__(self) -> None:
        self.exit_status: int | None = None

    def close(self, _linger_s: float) -> None:
        self.exit_status = self.exit_status or 0


def test_a_launcher_keeps_keys_for_its_screens_until_its_end_and_not_after_q(
    desk: Desk, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, ...]] = []
    screens: list[Screen] = []

    def sidecar(_run_dir: Path, *options: str, may_be_kept: bool) -> Screen:
        assert not desk.echoes
        assert not desk.quits
        opened.append(options)
        screens.append(Screen())
        return screens[-1]

    lines = SimpleNamespace(
        owns_screen=False, exit_status=None, process=SimpleNamespace(stdout=None)
    )
    views = SimpleNamespace(sidecar=sidecar, lines=lambda *_, **__: lines)
    monkeypatch.setattr(show_module, "View", views)
    monkeypatch.setattr(show_module, "_RUN_END_GRACE_S", 0.01)
    output = SimpleNamespace(
        pump=lambda _s: None,
        drain=lambda _s: None,
        say=lambda *_: None,
        take_kept_back=lambda _n: [],
        is_shown=True,
    )
    terminal = TerminalState(desk.fd)
    terminal.keep_keys()
    show = Show(Kind.SCREEN, cast("Any", output), terminal=terminal)
    assert not desk.echoes, "also before a run is there"
    assert desk.quits, "no screen is there, and none is on its way"
    show.begin(run_dir, 0)
    assert opened == [(f"--terminal={terminal.told()}",)]
    (run_dir / "run_summary.json").write_text("{}")
    screens[-1].exit_status = 0
    show.tick()
    assert not desk.echoes, "the next run's screen may come"
    show.begin(run_dir, 0)
    (run_dir / "run_summary.json").unlink()
    screens[-1].exit_status = 0
    show.tick()
    assert desk.is_as_before, "somebody has closed it, and there is no next one"
    show.end()
    assert desk.is_as_before


def test_a_launcher_that_is_put_aside_gives_the_terminal_back_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(show_module, "pause_with", lambda _: seen.append(desk.is_as_before))
    terminal = TerminalState(desk.fd)
    terminal.keep_keys()
    show = Show(Kind.SCREEN, cast("Any", SimpleNamespace(is_shown=True)), terminal=terminal)
    show.pause(())
    assert (seen, desk.echoes) == ([True], False)
    raw = termios.tcgetattr(desk.fd)
    raw[3] &= ~termios.ISIG
    termios.tcsetattr(desk.fd, termios.TCSANOW, raw)
    show.pause(())
    assert (seen, termios.tcgetattr(desk.fd)) == ([True, False], raw), "that of a screen"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_ends_us_while_we_import_leaves_the_terminal_as_it_was(
    desk: Desk, number: signal.Signals
) -> None:
    code = """
import os, resource, signal
from unilab_metrics.run.launching import kept_keys as kept
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
kept.can_take_terminal = lambda _: True
os.tcgetpgrp = lambda _: os.getpgrp()
with kept.kept_keys({}):
    os.write(2, b"kept")
    while True:
        signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=desk.fd, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stderr.read(4) == b"kept"
        assert not desk.echoes
        process.send_signal(number)
    assert process.returncode == -number
    assert desk.is_as_before


def test_a_terminal_that_no_screen_may_take_is_left_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "can_take_terminal", lambda _: False)
    with kept.kept_keys({}) as terminal:
        assert terminal is None
        assert desk.is_as_before


def test_an_exception_leaves_the_terminal_and_the_signals_as_they_were(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGTSTP)]
    monkeypatch.setattr(kept, "can_take_terminal", lambda _: True)
    monkeypatch.setattr(kept, "TerminalState", lambda: TerminalState(desk.fd))

    def interrupted() -> None:
        with kept.kept_keys({}):
            assert not desk.echoes
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert desk.is_as_before
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGTSTP)] == before
