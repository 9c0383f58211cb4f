"""A terminal as a stream for Textual: whole writes, and no error when it has gone away."""

from __future__ import annotations

import os
import select

_WAIT_S = 0.5


class TerminalOutput:
    """Writes text to a descriptor. Used by one thread, Textual's writer.

    A thread that ended on an error would leave the app waiting on a full queue for ever. Another
    program may have set the terminal to not blocking, for all who have it open.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: list[str] = []
        self.is_gone = False

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal, still."""
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        """Keep ``text`` for the next :meth:`flush`."""
        if not self.is_gone:
            self._waiting.append(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits; dropped where nobody takes it any more."""
        data = memoryview("".join(self._waiting).encode("utf-8", "replace"))
        self._waiting.clear()
        try:
            while data and not self.is_gone:
                data = data[self._write(data) :]
        except OSError:
            self.is_gone = True

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            select.select([], [self._descriptor], [], _WAIT_S)
            return 0
