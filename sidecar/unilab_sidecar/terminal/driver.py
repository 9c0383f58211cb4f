"""Textual's driver for a terminal that is shared with a shell.

What it adds: the terminal is given back and taken again any number of times, nothing is drawn or
read while another process group has it, no byte that comes in can end the input, and a terminal
that has gone away ends the app.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

from unilab_sidecar.terminal.bounded_input import BoundedInput
from unilab_sidecar.terminal.input import TerminalInput
from unilab_sidecar.terminal.key_parsing import key_parser
from unilab_sidecar.terminal.output import TerminalOutput

if TYPE_CHECKING:
    from textual.app import App

_POLL_S = 0.1
_READ_BYTES = 4096
_USUAL_SIZE = (80, 24)
_UNSEEN = (signal.SIGTTIN, signal.SIGTTOU)


class TerminalDriver(BoundedInput, LinuxDriver):
    """All methods belong to the main thread, but :meth:`run_input_thread`."""

    first: list[Any] | None = None
    """The terminal's settings before anybody prepared it for the screen."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)  # pyright: ignore[reportUnknownMemberType]
        self._output = TerminalOutput(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        # Textual asks no more of it than these few methods.
        self._file: Any = self._output
        self._is_away = False
        # Textual's handlers take the terminal in the middle of whatever the app does, and after a
        # SIGCONT without SIGTSTP a second time. The app's own run in its loop.
        for number in (signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)

    @property
    def is_away(self) -> bool:
        """Whether the terminal is left to others at the moment."""
        return self._is_away

    @property
    def is_gone(self) -> bool:
        """Whether there is no terminal any more."""
        if self._output.is_gone:
            return True
        try:
            os.tcgetpgrp(self.fileno)
        except OSError as error:
            return error.errno == errno.EIO
        return False

    def is_ours(self) -> bool:
        """Whether our process group is the one in front, or the terminal has no such order."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError as error:
            return error.errno != errno.EIO

    def leave(self) -> None:
        """Give the terminal back as it was; the settings of one that a shell has taken already
        are the shell's."""
        if not self._is_away:
            self.suspend_application_mode()
            self._is_away = True

    def come_back(self) -> None:
        """Take the terminal, or take it anew if somebody else may have changed its settings."""
        if not self._is_away:
            self.suspend_application_mode()
        self._is_away = False
        self.resume_application_mode()

    def write(self, data: str) -> None:
        """Write to the terminal, unless it is left to others."""
        if not self._is_away:
            super().write(data)

    def _get_terminal_size(self) -> tuple[int, int]:
        # ``COLUMNS`` and ``LINES``, which Textual would believe, are of the shell that exported
        # them, of another window or of the one before a resize.
        try:
            columns, rows = os.get_terminal_size(self.fileno)
        except OSError:
            columns, rows = 0, 0
        return columns or _USUAL_SIZE[0], rows or _USUAL_SIZE[1]

    def start_application_mode(self) -> None:
        """Take the terminal."""
        super().start_application_mode()
        if self.first is not None and self.attrs_before is not None:
            self.attrs_before, TerminalDriver.first = self.first, None
        # A background process that reads or sets the terminal would be stopped, with its whole
        # job; that we are in the background is noticed a moment later.
        for number in _UNSEEN:
            signal.signal(number, signal.SIG_IGN)

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        if self._is_away:
            return
        if not self.is_ours():
            self.attrs_before = None
        super().stop_application_mode()

    def disable_input(self) -> None:
        """Read no more."""
        if not self._is_away:
            super().disable_input()

    def run_input_thread(self) -> None:
        """Read keys until told to stop or until the terminal is gone."""
        decoded, parser = TerminalInput(), key_parser()
        if parser is None:
            super().run_input_thread()
            return
        while not self.exit_event.is_set():
            data: bytes | None = None
            if select.select([self.fileno], [], [], _POLL_S)[0]:
                data = self._read()
                if data == b"":
                    self._app.call_later(self._app.exit, None, 128 + signal.SIGHUP)
                    return
            text = decoded.text(data or b"", time.monotonic())
            try:
                # An empty text would be the end of all input.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
            except Exception:  # noqa: BLE001 (whatever was typed, the view stays)
                parser = key_parser() or parser

    def _read(self) -> bytes | None:
        """What was typed; ``None`` while it is not for us, empty if the terminal is gone."""
        try:
            return os.read(self.fileno, _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            if self.is_gone:
                return b""
            # Typed for the group in front.
            self.exit_event.wait(_POLL_S)
            return None
