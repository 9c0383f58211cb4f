"""Who guards a screen hears of its end, also of one that comes while both are stopped."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unilab_metrics.run.launching import guard


def _stopped_child() -> int:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    os.kill(pid, signal.SIGSTOP)
    return pid


def _wait(pid: int) -> int:
    terminal = SimpleNamespace(restore_if_ours=lambda modes: None)
    return guard._wait(pid, cast("Any", terminal))


def test_a_screen_that_is_killed_while_both_are_stopped_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pid = _stopped_child()

    def stop(_: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(signal, "raise_signal", stop)
    status = _wait(pid)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_a_screen_goes_on_with_who_guards_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = _stopped_child()
    stops: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", stops.append)
    kill = os.kill

    def kill_both(number: int, what: int) -> None:
        kill(number, what)
        if what == signal.SIGCONT:
            kill(number, signal.SIGTERM)

    monkeypatch.setattr(os, "kill", kill_both)
    status = _wait(pid)
    assert stops == [signal.SIGTSTP]
    assert os.WTERMSIG(status) == signal.SIGTERM


def test_a_quit_that_is_for_the_guard_alone_is_passed_on() -> None:
    assert signal.SIGQUIT in guard._PASSED_ON


class Ended(BaseException):
    """In the place of an end of this process."""


class Start:
    """What is done while a screen starts, whose process is ``pid``, or which cannot be started."""

    def __init__(self, patch: pytest.MonkeyPatch, pid: int | None) -> None:
        self.pid, self.done = pid, list[str]()
        self.held: set[int] = set()
        self.handed: set[int] = set()
        self.end = 0
        self.before: set[int] = set()
        self.after: set[int] = set()
        patch.setattr(guard, "keep_keys", lambda: self.done.append("keys kept"))
        patch.setattr(os, "posix_spawn", self._spawn)
        patch.setattr(guard, "_wait", lambda _pid, _terminal: 0)
        patch.setattr(guard, "_end_as", self._end)

    def run(self, *, asks: bool) -> None:
        terminal = SimpleNamespace(
            restore=lambda modes: self.done.append("restored"),
            restore_if_ours=lambda modes: None,
        )
        numbers = (signal.SIGINT, *guard._PASSED_ON)
        handlers = {number: signal.getsignal(number) for number in numbers}
        # One that was held back before is so for the screen, too.
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
        self.before = set(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        try:
            guard._guard(["/screen"], {}, cast("Any", terminal), asks=asks)
        finally:
            self.after = set(signal.pthread_sigmask(signal.SIG_SETMASK, usual))
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _spawn(self, *_told: object, setsigmask: set[int]) -> int:
        self.held = set(signal.pthread_sigmask(signal.SIG_BLOCK, [])) - self.before
        self.handed = set(setsigmask)
        if self.pid is None:
            raise FileNotFoundError
        return self.pid

    def _end(self, status: int) -> None:
        self.end = status
        raise Ended


@pytest.mark.parametrize("asks", [True, False])
def test_signals_wait_until_there_is_a_screen_that_hears_them(
    monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    start = Start(monkeypatch, 2**22 + 1)
    with pytest.raises(Ended):
        start.run(asks=asks)
    assert start.held == {signal.SIGINT, *guard._PASSED_ON}
    assert start.handed == start.before
    assert start.after == start.before
    # Whoever may be asked for a password types it, and not keys for a screen.
    assert start.done == ([] if asks else ["keys kept"])


def test_a_screen_that_cannot_be_started_leaves_the_terminal_and_signals_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = Start(monkeypatch, None)
    with pytest.raises(FileNotFoundError):
        start.run(asks=False)
    assert start.done == ["keys kept", "restored"]
    assert start.after == start.before
