"""The terminal of a launcher from its first moment: what is typed before a screen is there is for the
screen, and is not echoed into what the training prints."""

from __future__ import annotations

import contextlib
import signal
import termios
from collections.abc import Generator, Mapping
from types import FrameType

from unilab_metrics.run.launching.terminal import TerminalState, can_take_terminal

_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextlib.contextmanager
def kept_keys(environ: Mapping[str, str]) -> Generator[TerminalState | None]:
    """Meanwhile the terminal, if a screen may take it, does not echo. At the end, and before a signal
    ends or stops us that nobody else handles, it is as it was. Gives how that is, or ``None`` for a
    terminal that is left alone. Main thread only."""
    terminal = None
    if can_take_terminal(environ):
        with contextlib.suppress(termios.error):
            terminal = TerminalState()
    if terminal is None:
        yield None
        return
    with _unkept_in_the_end(terminal):
        yield terminal


@contextlib.contextmanager
def _unkept_in_the_end(terminal: TerminalState) -> Generator[None]:
    def end(number: int, _frame: FrameType | None) -> None:
        terminal.restore(modes=False)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def pause(number: int, _frame: FrameType | None) -> None:
        terminal.restore(modes=False)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, pause)
        terminal.keep_keys()

    wanted = {**dict.fromkeys(_ENDS, end), signal.SIGTSTP: pause}
    ours = {n: handler for n, handler in wanted.items() if signal.getsignal(n) == signal.SIG_DFL}
    for number, handler in ours.items():
        signal.signal(number, handler)
    try:
        terminal.keep_keys()
        yield
    finally:
        terminal.restore(modes=False)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
