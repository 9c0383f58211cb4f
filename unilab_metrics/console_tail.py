"""What a training has printed, as lines for a screen. Pure.

A terminal would obey what is in there: colours, cursor movements, progress bars that rewrite
their line. A view shows the text only, and of a rewritten line its last state.
"""

from __future__ import annotations

import re

MAX_LINE_CHARS = 2000
_TAB = 8
_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # OSC, DCS and other strings: titles, links, pictures
    r"|[ -/]*[0-~]"
    r")?",
    re.DOTALL,
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def tail_lines(data: bytes, count: int, *, is_cut: bool = False) -> list[str]:
    """The last ``count`` lines of ``data``, without empty ones at the end.

    ``is_cut``: ``data`` begins in the middle of a line, which is left out.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.split("\n")
    if is_cut and len(lines) > 1:
        lines = lines[1:]
    while lines and not plain_line(lines[-1]):
        lines.pop()
    return [plain_line(line) for line in lines[-count:]] if count > 0 else []


def plain_line(line: str) -> str:
    """One line as text: no escape codes, no control characters, no direction overrides, tabs as
    spaces, of what carriage returns and backspaces have written over one another the last; cut at
    2,000 characters with an ellipsis."""
    if line.isascii() and line.isprintable():
        return _cut(line.rstrip())
    # The last state of a bar may follow an erased line.
    for part in reversed(line.split("\r")):
        text = _ESCAPES.sub("", part)
        if "\b" in text:
            text = _overstruck(text)
        text = _UNPRINTABLE.sub("", text.expandtabs(_TAB)).rstrip()
        if text:
            return _cut(text)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else text[: MAX_LINE_CHARS - 1] + "…"


def _overstruck(text: str) -> str:
    """What is left where backspaces go back and further characters write over."""
    shown: list[str] = []
    at = 0
    for character in text:
        if character == "\b":
            at = max(at - 1, 0)
            continue
        shown[at : at + 1] = [character]
        at += 1
    return "".join(shown)
