"""Esc, and whatever is typed soon after it, as two keys. Pure.

A terminal sends Esc as the byte with which its sequences for other keys begin. A parser of keys
takes what follows within a tenth of a second for a part of such a sequence: Esc and 2 would be Alt+2,
a sign for trade marks. Nothing here is on Alt, so it is told what was meant.
"""

from __future__ import annotations

import re

ESCAPE = "\x1b[27u"
"""Esc and nothing else, in Kitty's protocol, which Textual's parser always understands."""
WAIT_S = 0.1
"""For the rest of a sequence, which comes in one piece or nearly so."""
_LONE = re.compile("\x1b(?=[^\\[O\x7f])")
"""Alt+Backspace stays, which is known to erase a word."""
_BEGUN = re.compile("\x1b[\\[O]?\\Z")


class LoneEscape:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._held = ""
        self._since_s = 0.0

    def told(self, text: str, now_s: float) -> str:
        """The next text with lone Escs as sequences of their own; the beginning of a sequence once it
        goes on, or is known to be none. ``text``: empty while nothing has come; ``now_s``: on any
        clock that only rises."""
        if self._held and now_s - self._since_s >= WAIT_S:
            text, self._held = f"{ESCAPE}{self._held[1:]}{text}", ""
        elif text:
            text, self._held = self._held + text, ""
        else:
            return ""
        text = _LONE.sub(lambda _match: ESCAPE, text)
        begun = _BEGUN.search(text)
        if begun is not None:
            self._held, self._since_s = begun.group(), now_s
            text = text[: begun.start()]
        return text
