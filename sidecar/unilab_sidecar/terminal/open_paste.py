"""Pasted text, of which no view makes anything: it is left out, however long it is. Pure.

Its end may never come, because the line was cut or a program printed only its beginning; a parser
of keys would take all that is typed from then on for a part of it, Ctrl+C too.
"""

from __future__ import annotations

_BEGIN = b"\x1b[200~"
_END = b"\x1b[201~"
_CTRL_C = b"\x03"
_KITTY_CTRL_C = b"\x1b[99;5u"
QUIET_S = 1.0
"""What comes after a pause is typed."""


class OpenPaste:
    """Follows what a terminal sends. One owner, no locks."""

    def __init__(self) -> None:
        self._is_open = False
        self._tail = b""
        self._heard_s = 0.0

    def typed(self, data: bytes, now_s: float) -> bytes:
        """The next bytes without what is pasted, of which beginning and end stay. ``data``: empty
        while nothing has come, by which alone a pause is known: who was stopped himself finds all
        that came meanwhile. ``now_s``: on any clock that only rises."""
        if self._is_open and self._has_to_end(data, now_s):
            return self._close() + data
        if data:
            self._heard_s = now_s
        made = b""
        while data:
            seen = self._tail + data
            at = seen.find(_END if self._is_open else _BEGIN)
            rest = seen[at + len(_BEGIN) :] if at >= 0 else b""
            if self._is_open:
                made += self._close() if at >= 0 else b""
            else:
                made += data[: len(data) - len(rest)]
                self._is_open = at >= 0
            self._tail = b"" if at >= 0 else seen[-len(_BEGIN) + 1 :]
            data = rest
        return made

    def _has_to_end(self, data: bytes, now_s: float) -> bool:
        if not data:
            return now_s - self._heard_s >= QUIET_S
        # One among other text is pasted like the rest.
        return data == _KITTY_CTRL_C or not data.strip(_CTRL_C)

    def _close(self) -> bytes:
        self._is_open, self._tail = False, b""
        return _END
