"""Who waits for a screen that a shell has started, and puts the terminal back however it ends.

The command line stays as the screen's parent and as the process that the shell knows. So the shell
takes the terminal again only when it is as it was: also after a SIGKILL of the screen, when nobody
else could tell what is to be undone, and the shell has its own prompt to draw.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import termios
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from unilab_metrics.run.launching.terminal import TerminalState, has_terminal
from unilab_metrics.typed_ahead import keep_keys

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""The terminal sends SIGQUIT to the screen as well, which ends by the first one."""


def become(
    command: list[str], environ: Mapping[str, str], *, is_screen: bool, asks: bool = False
) -> NoReturn:
    """Be replaced by a view, or by whoever guards it where it is a screen. ``is_screen``: it takes
    a terminal, if it may. ``asks``: people may be asked for something first, on the terminal.
    Main thread only; raises ``OSError`` if the view cannot be started."""
    if is_screen and has_terminal(environ):
        with contextlib.suppress(termios.error):
            _guard(command, environ, TerminalState(), asks=asks)
    os.execve(command[0], command, environ)  # noqa: S606


def _guard(
    command: list[str], environ: Mapping[str, str], terminal: TerminalState, *, asks: bool
) -> NoReturn:
    whose = "job" if _leads_a_job() else "none"
    children: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    # Held back until there is somebody to pass them on to.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *_PASSED_ON])
    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    interrupts: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # A screen that is there gets Ctrl+C as a key. Before, it could only die in the middle of an
        # import, and say so at length.
        interrupts.append(number)
        pass_on(signal.SIGTERM, None)

    try:
        if not asks:
            keep_keys()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        whole = [*command, f"--guarded={whose}"]
        pid = os.posix_spawn(command[0], whole, environ, setsigmask=blocked)
        children.append(pid)
        signal.signal(signal.SIGINT, _nothing if asks else interrupt)
    except OSError:
        terminal.restore(modes=False)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    status = _wait(pid, terminal)
    children.clear()
    terminal.restore_if_ours(modes=os.WIFSIGNALED(status))
    _end_as(signal.SIGINT if interrupts else status)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _wait(pid: int, terminal: TerminalState) -> int:
    """Until it has ended; its wait status. Stops with it, and goes on with it."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        terminal.restore_if_ours(modes=False)
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        changed, status = os.waitpid(pid, os.WNOHANG | os.WCONTINUED)
        if changed and not os.WIFCONTINUED(status):
            # It was killed meanwhile.
            return status
        if not changed:
            # Who continued us alone meant both.
            os.kill(pid, signal.SIGCONT)


def _end_as(status: int) -> NoReturn:
    """As it has ended, so that the shell hears the same."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _leads_a_job() -> bool:
    """Whether a shell can continue us; see ``shared_terminal.leads_a_job`` of the sidecar."""
    try:
        session = os.getsid(0)
        return os.getpgrp() == os.getpid() != session and os.getsid(os.getppid()) == session
    except OSError:
        return False
