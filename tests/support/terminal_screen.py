"""What a terminal shows of the bytes that a program has written, on both of its screens."""

from __future__ import annotations

import re

import pyte

_SWITCH = re.compile(rb"\x1b\[\?1049([hl])")
_UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[<>][0-9;]*u|\x1b\[\?[0-9;]*\$p")
_INCOMPLETE = re.compile(rb"\x1b[^a-zA-Z]*\Z")
# How a terminal is before any program has run: everything is off but these.
_ON_AT_FIRST = {"25", "7"}
MODES = ("1049", "25", "7", "1000", "1003", "1006", "1004", "2004")
"""Screen, cursor, wrapping, three kinds of mouse reports, focus reports, bracketed paste."""


class TerminalScreen:
    """Fed with bytes; knows the text of the screen that is in front, and the modes."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.written = b""
        self._waiting = b""
        self._main = pyte.Screen(columns, rows)
        self._front = self._main
        self._stream = pyte.ByteStream(self._front)

    @property
    def lines(self) -> list[str]:
        """The rows of the screen in front."""
        return [row.rstrip() for row in self._front.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen is in front."""
        return self._front is not self._main

    def modes(self) -> dict[str, bool]:
        """Which modes are on. Those of a shell that edits a line do not count: it switches
        bracketed paste on itself."""
        return {mode: self._is_on(mode) for mode in MODES}

    def feed(self, data: bytes) -> None:
        self.written += data
        data = self._waiting + data
        tail = _INCOMPLETE.search(data)
        end = tail.start() if tail else len(data)
        data, self._waiting = data[:end], data[end:]
        for part in re.split(rb"(\x1b\[\?1049[hl])", data):
            if switch := _SWITCH.fullmatch(part):
                self._switch(is_alternate=switch[1] == b"h")
            else:
                self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", part))

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        for screen in {id(s): s for s in (self._main, self._front)}.values():
            screen.resize(rows, columns)

    def _switch(self, *, is_alternate: bool) -> None:
        if is_alternate != self.is_alternate:
            self._front = pyte.Screen(self.columns, self.rows) if is_alternate else self._main
            self._stream = pyte.ByteStream(self._front)

    def _is_on(self, mode: str) -> bool:
        on = self.written.rfind(f"\x1b[?{mode}h".encode())
        off = self.written.rfind(f"\x1b[?{mode}l".encode())
        return mode in _ON_AT_FIRST if on == off == -1 else on > off
