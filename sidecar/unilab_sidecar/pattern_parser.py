"""The text of a regular expression as a tree. Pure; see :mod:`unilab_sidecar.pattern`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MAX_DEPTH = 40
_MAX_REPEATS = 1000
_CLASSES = "dDwWsS"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r"}


class PatternError(ValueError):
    """The text is no pattern; the message is for whoever types it."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One character of a set: single ones, ranges, classes (``d``, ``w``, ``s`` and opposites).

    ``inverted``: any other one. An empty inverted set is any character.
    """

    singles: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    classes: frozenset[str] = frozenset()
    inverted: bool = False

    def takes(self, character: str) -> bool:
        """Whether it is this one, in lower case or in upper case."""
        upper = character.upper()
        forms = (character,) if upper == character else (character, upper)
        return any(self._holds(form) for form in forms) != self.inverted

    def _holds(self, character: str) -> bool:
        if character in self.singles:
            return True
        if any(first <= character <= last for first, last in self.ranges):
            return True
        return any(_is_of_class(character, name) for name in self.classes)


@dataclass(frozen=True, slots=True)
class Assertion:
    """``^``, ``$``, or a word boundary (``b``) or none (``B``)."""

    kind: Literal["^", "$", "b", "B"]


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part ``least`` to ``most`` times; ``None``: without end."""

    part: Node
    least: int
    most: int | None


Node = Symbol | Assertion | Sequence | Branch | Repeat


def parse(text: str) -> Node:
    """The tree of ``text``. Raises :class:`PatternError`."""
    parser = _Parser(text)
    node = parser.branch(0)
    if parser.rest():
        raise PatternError("a ) without its (")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :]

    def branch(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise PatternError("too many ( inside each other")
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Branch(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _next(self, missing: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._take("?")  # lazy or not, the answer is the same
        if self._bounds() is not None:
            raise PatternError("one repeat after another")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for token, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(token):
                return bounds
        end = self._text.find("}", self._at)
        if not self._text.startswith("{", self._at) or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not (least or most) or not all(n.isascii() and n.isdigit() for n in (least, most) if n):
            return None
        self._at = end + 1
        low = int(least[:9] or "0")
        high = int(most[:9]) if most else None if comma else low
        if max(low, high or 0) > _MAX_REPEATS:
            raise PatternError(f"at most {_MAX_REPEATS:,} repeats")
        if high is not None and high < low:
            raise PatternError("{m,n} with m above n")
        return low, high

    def _atom(self, depth: int) -> Node:
        character = self._next("")
        if character in "*+?":
            raise PatternError("nothing to repeat")
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._set()
        if character == ".":
            return Symbol(inverted=True)
        if character in "^$":
            return Assertion("^" if character == "^" else "$")
        if character == "\\":
            escaped = self._next("a \\ at the end")
            if escaped in "bB":
                return Assertion("b" if escaped == "b" else "B")
            return _escaped(escaped)
        return _single(character)

    def _group(self, depth: int) -> Node:
        if self._take("?") and not self._take(":"):
            raise PatternError("(?… is not known here, only (?:…)")
        node = self.branch(depth + 1)
        if not self._take(")"):
            raise PatternError("a ( without its )")
        return node

    def _set(self) -> Symbol:
        inverted = self._take("^")
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        classes: set[str] = set()
        is_first = True
        while is_first or not self._take("]"):
            part = self._member()
            is_first = False
            if len(part.singles) == 1 and self.rest()[:1] == "-" and self.rest()[1:2] != "]":
                self._at += 1
                (first,) = part.singles
                last = next(iter(self._member().singles), "")
                if last < first:
                    raise PatternError("a range that goes backwards")
                ranges.append((first, last))
            else:
                singles |= part.singles
                classes |= part.classes
        return Symbol(frozenset(singles), tuple(ranges), frozenset(classes), inverted)

    def _member(self) -> Symbol:
        character = self._next("a [ without its ]")
        if character == "\\":
            return _escaped(self._next("a \\ at the end"))
        return Symbol(frozenset((character,)))


def _single(character: str) -> Symbol:
    return Symbol(frozenset((character, character.lower(), character.upper())))


def _escaped(character: str) -> Symbol:
    if character in _CLASSES:
        return Symbol(classes=frozenset((character,)))
    if character in _CONTROLS:
        return Symbol(frozenset((_CONTROLS[character],)))
    if character.isalnum():
        raise PatternError(f"\\{character} is not known here")
    return Symbol(frozenset((character,)))


def _is_of_class(character: str, name: str) -> bool:
    kind = name.lower()
    if kind == "d":
        found = character.isdigit()
    elif kind == "s":
        found = character.isspace()
    else:
        found = character.isalnum() or character == "_"
    return found == name.islower()
