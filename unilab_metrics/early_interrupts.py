"""Ctrl+C while a program of ours is still importing: it ends like any other, by the signal and
without a traceback that nobody has asked for."""

from __future__ import annotations

import contextlib
import signal


def end_by_interrupts() -> None:
    """From now on SIGINT ends the process at once, unless it is ignored or handled already. Main
    thread, before the long imports."""
    _change(signal.default_int_handler, signal.SIG_DFL)


def raise_interrupts() -> None:
    """SIGINT raises ``KeyboardInterrupt`` again, for those who clean up after themselves. Main
    thread."""
    _change(signal.SIG_DFL, signal.default_int_handler)


def _change(before: object, after: signal._HANDLER) -> None:  # pyright: ignore[reportPrivateUsage]
    if signal.getsignal(signal.SIGINT) is before:
        # Of another thread there is nothing to be settled.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, after)
