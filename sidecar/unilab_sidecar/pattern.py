r"""Regular expressions that cannot hang: matched in time linear in the text. Pure.

Python's ``re`` tries alternatives one after the other, so that an innocent ``(a+)+b`` runs for
minutes, with the screen's thread inside. Here all alternatives advance together, one character
at a time, and what was worked out for one text is remembered for the next.

Understood, without regard to case: characters, ``.``, ``[a-z]``, ``[^…]``, ``\d \w \s`` and
their opposites, ``^ $ \b \B``, ``( )``, ``(?: )``, ``|``, and ``* + ? {m,n}`` (also lazy, which
is the same when only asked whether something matches). Anything else is a :class:`PatternError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from unilab_sidecar.pattern_parser import (
    Assertion,
    Branch,
    Node,
    PatternError,
    Repeat,
    Sequence,
    Symbol,
    parse,
)

__all__ = ["Pattern", "PatternError"]

_MAX_STEPS = 2000
"""Of the expanded pattern: ``(x{30}){30}`` is refused."""
_MAX_REMEMBERED = 4000


@dataclass(slots=True)
class _Step:
    """One place of the pattern: what must come here, and the places behind it."""

    what: Symbol | Assertion | Literal["split", "end"]
    after: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class _Standing:
    """The places reached so far; what came before decides about line and word starts."""

    places: frozenset[int]
    after_word: bool
    at_start: bool
    following: dict[str, _Standing | None] = field(default_factory=dict[str, "_Standing | None"])
    """By the next character; ``None``: the pattern has matched."""
    matches_at_end: bool | None = None


class Pattern:
    """A compiled pattern. One owner: matching fills what it remembers."""

    def __init__(self, text: str) -> None:
        """Raises :class:`PatternError` with a sentence that says what is wrong with ``text``."""
        self._steps: list[_Step] = [_Step("end")]
        self._first = self._build(parse(text), 0)
        self._known: dict[tuple[frozenset[int], bool, bool], _Standing] = {}
        self._start = self._standing(frozenset((self._first,)), after_word=False, at_start=True)

    def is_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in ``text``, whatever the case."""
        standing = self._start
        for character in text.lower():
            try:
                following = standing.following[character]
            except KeyError:
                following = self._advance(standing, character)
            if following is None:
                return True
            standing = following
        if standing.matches_at_end is None:
            reached = self._reach(standing, next_is_word=False, at_end=True)
            standing.matches_at_end = 0 in reached
        return standing.matches_at_end

    def _advance(self, standing: _Standing, character: str) -> _Standing | None:
        is_word = _is_word(character)
        reached = self._reach(standing, next_is_word=is_word, at_end=False)
        following: _Standing | None = None
        if 0 not in reached:
            places = {self._first}
            for place in reached:
                step = self._steps[place]
                if isinstance(step.what, Symbol) and step.what.takes(character):
                    places.update(step.after)
            following = self._standing(frozenset(places), after_word=is_word, at_start=False)
        standing.following[character] = following
        return following

    def _standing(self, places: frozenset[int], *, after_word: bool, at_start: bool) -> _Standing:
        key = (places, after_word, at_start)
        standing = self._known.get(key)
        if standing is None:
            if len(self._known) >= _MAX_REMEMBERED:
                for known in self._known.values():
                    known.following.clear()
                self._known.clear()
            standing = self._known[key] = _Standing(places, after_word, at_start)
        return standing

    def _reach(self, standing: _Standing, *, next_is_word: bool, at_end: bool) -> set[int]:
        """All places that are reached without another character."""
        is_boundary = standing.after_word != next_is_word
        holds = {
            "^": standing.at_start,
            "$": at_end,
            "b": is_boundary,
            "B": not is_boundary,
        }
        reached: set[int] = set()
        waiting = list(standing.places)
        while waiting:
            place = waiting.pop()
            if place in reached:
                continue
            reached.add(place)
            step = self._steps[place]
            if step.what == "split" or (isinstance(step.what, Assertion) and holds[step.what.kind]):
                waiting += step.after
        return reached

    def _add(self, what: Symbol | Assertion | Literal["split"], after: Iterable[int]) -> int:
        if len(self._steps) >= _MAX_STEPS:
            raise PatternError("the pattern is too long")
        self._steps.append(_Step(what, tuple(after)))
        return len(self._steps) - 1

    def _build(self, node: Node, then: int) -> int:
        """The place where ``node`` begins if ``then`` follows it."""
        if isinstance(node, Symbol | Assertion):
            return self._add(node, (then,))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if isinstance(node, Branch):
            return self._add("split", [self._build(option, then) for option in node.options])
        return self._build_repeat(node, then)

    def _build_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add("split", ())
            self._steps[loop].after = (self._build(node.part, loop), then)
            then = loop
        else:
            out = then
            for _ in range(node.most - node.least):
                then = self._add("split", (self._build(node.part, then), out))
        for _ in range(node.least):
            then = self._build(node.part, then)
        return then


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
