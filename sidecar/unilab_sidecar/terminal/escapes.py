"""Fewer bytes for the same picture on a terminal. Pure.

Textual ends every piece of a style with a reset and begins the next one with all that it is made
of. Over ssh, and in a recording, most of what is sent would be that.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_STYLES = re.compile("\x1b\\[([0-9;]*)m")
_MOVES = re.compile("(?:\r?\n|\x1b\\[[0-9;]*H)*")
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
_DEFAULT_COLOURS = ("39", "49")
_FRONTS = frozenset(str(number) for number in (*range(30, 40), *range(90, 98)))
_BACKS = frozenset(str(number) for number in (*range(40, 50), *range(100, 108)))
_SEEN_ON_BLANKS = frozenset("479")
"""Underlined, reversed and crossed out."""


class _Look(NamedTuple):
    """How characters look. ``marks``: bold and such, as their codes; colours as theirs."""

    marks: frozenset[str] = frozenset()
    front: str = "39"
    back: str = "49"


_USUAL = _Look()


def squeezed(text: str) -> str:
    """The same picture from fewer bytes: only what differs from the style before is sent. It
    begins and ends with the terminal's own style. What is no text, style or place of the cursor
    finds the style as it was; a text with styles that are not known here stays as it is."""
    pieces = _STYLES.split(text)
    made: list[str] = [pieces[0]]
    sent = wanted = _USUAL
    for place in range(1, len(pieces), 2):
        after = _styled(wanted, pieces[place])
        if after is None:
            return text
        wanted, piece = after, pieces[place + 1]
        if not piece:
            continue
        if sent != wanted and not _looks_alike(piece, sent, wanted):
            moves = _MOVES.match(piece)
            start = moves.end() if moves is not None else 0
            if start == len(piece):
                made.append(piece)
                continue
            made += (piece[:start], _change(sent, wanted), piece[start:])
            sent = wanted
        else:
            made.append(piece)
    made.append(_change(sent, _USUAL))
    return "".join(made)


def _looks_alike(piece: str, sent: _Look, wanted: _Look) -> bool:
    """Blanks show nothing but what is behind them."""
    if piece.strip(" ") or sent.back != wanted.back:
        return False
    return not (sent.marks | wanted.marks) & _SEEN_ON_BLANKS


@lru_cache(maxsize=1024)
def _styled(before: _Look, codes: str) -> _Look | None:
    """The look after a style sequence, ``None`` for one that is not known."""
    marks, front, back = set(before.marks), before.front, before.back
    numbers = codes.split(";")
    at = 0
    while at < len(numbers):
        number = numbers[at] or "0"
        size = 1
        if number in ("38", "48"):
            size = {"5": 3, "2": 5}.get(numbers[at + 1] if at + 1 < len(numbers) else "", 0)
            if not size or at + size > len(numbers):
                return None
            number = ";".join(numbers[at : at + size])
        if number == "0":
            marks, front, back = set[str](), *_DEFAULT_COLOURS
        elif number in _OFF:
            marks.add(number)
        elif number.partition(";")[0] in _FRONTS:
            front = number
        elif number.partition(";")[0] in _BACKS:
            back = number
        else:
            return None
        at += size
    return _Look(frozenset(marks), front, back)


@lru_cache(maxsize=4096)
def _change(sent: _Look, wanted: _Look) -> str:
    """The shortest sequence from one look to another."""
    if sent == wanted:
        return ""
    colours = [
        code for code, old in ((wanted.front, sent.front), (wanted.back, sent.back)) if code != old
    ]
    off = {_OFF[mark] for mark in sent.marks - wanted.marks}
    still = {mark for mark in sent.marks if _OFF[mark] not in off}
    added = wanted.marks - still
    changed = "\x1b[" + ";".join([*sorted(off), *sorted(added), *colours]) + "m"
    if wanted == _USUAL:
        anew = "\x1b[m"
    else:
        own = [code for code in (wanted.front, wanted.back) if code not in _DEFAULT_COLOURS]
        anew = "\x1b[" + ";".join(["0", *sorted(wanted.marks), *own]) + "m"
    return min(changed, anew, key=len)
