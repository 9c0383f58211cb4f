"""What a terminal sends, made fit for a parser of keys. Pure."""

from __future__ import annotations

from codecs import getincrementaldecoder

from unilab_sidecar.terminal.lone_escape import LoneEscape
from unilab_sidecar.terminal.open_paste import OpenPaste

_X10_REPORT = b"\x1b[M"
_X10_BYTES = len(_X10_REPORT) + 3


class TerminalInput:
    """Bytes in, text out, without what is pasted. Nothing that a terminal can send makes it raise.

    Mouse reports of the oldest kind are left out: their three bytes are any, so that a click in
    column 81 would be a ``q``, and beyond column 95 they are no valid UTF-8. We ask for no mouse,
    but a program that was killed here before may have left it on.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._held = b""
        self._paste = OpenPaste()
        self._escape = LoneEscape()

    def text(self, data: bytes, now_s: float = 0.0) -> str:
        """The text of the next bytes, none while nothing has come; of a report that is not complete,
        once it is. Of Esc a moment later, for what follows may be a part of it. ``now_s``: on any
        clock that only rises."""
        data = self._held + self._paste.typed(data, now_s)
        kept: list[bytes] = []
        begin = 0
        while (at := data.find(_X10_REPORT, begin)) >= 0:
            kept.append(data[begin:at])
            begin = at + _X10_BYTES
            if begin > len(data):
                begin = at
                break
        rest = data[begin:]
        if rest.startswith(_X10_REPORT):
            self._held = rest
        else:
            self._held = b""
            kept.append(rest)
        return self._escape.told(self._decoder.decode(b"".join(kept)), now_s)
