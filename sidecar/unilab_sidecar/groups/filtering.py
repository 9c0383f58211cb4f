r"""The filter language of every list: words, ``!not``, ``/regex/``. Pure.

All terms must hold. A word is found anywhere in the name, whatever its case; ``!`` in front
turns a term around; ``/…/`` is a regular expression, in which blanks count and ``\/`` is a
slash (a missing last slash is added, so that a filter works while it is typed). A slash inside
a word is an ordinary character: ``loss/critic`` is a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from unilab_sidecar.groups.pattern import Pattern, PatternError

MAX_TEXT = 500
"""Characters of a filter that are heeded."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: ``word`` in lower case, or ``pattern``. ``negated``: must not hold."""

    word: str = ""
    pattern: Pattern | None = None
    negated: bool = False

    def holds(self, name: str, lowered: str) -> bool:
        """Whether the name fulfils it."""
        if self.pattern is None:
            return (self.word in lowered) != self.negated
        found = self.pattern.is_in(name)
        return self.pattern.is_too_slow or found != self.negated


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; none: everything passes. ``mistake``: what is wrong with the
    text, empty if nothing is."""

    terms: tuple[Term, ...] = ()
    mistake: str = ""

    @property
    def problem(self) -> str:
        """Why a term is left out, empty if none is."""
        if any(term.pattern is not None and term.pattern.is_too_slow for term in self.terms):
            return "the pattern takes too long"
        return self.mistake

    def passes(self, name: str) -> bool:
        """Whether the name is shown."""
        lowered = name.lower()
        return all(term.holds(name, lowered) for term in self.terms)

    def select(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names that are shown, in their order."""
        return tuple(names[place] for place in self.places(names))

    def places(self, names: Sequence[str]) -> Sequence[int]:
        """Where the names are that are shown, rising."""
        kept: Sequence[int] = range(len(names))
        words = [term for term in self.terms if term.pattern is None]
        lowered = [name.lower() for name in names] if words else []
        for term in words:
            kept = [at for at in kept if (term.word in lowered[at]) != term.negated]
        # Words are cheap and leave few names for the patterns.
        for term in self.terms:
            if term.pattern is not None:
                found = term.pattern.found_in([names[at] for at in kept])
                if not term.pattern.is_too_slow:
                    pairs = zip(kept, found, strict=True)
                    kept = [at for at, is_found in pairs if is_found != term.negated]
        return kept


@lru_cache(maxsize=64)
def parse_filter(text: str) -> Filter:
    """What somebody typed as a filter. Never raises."""
    terms: list[Term] = []
    mistake = ""
    for token, is_pattern, negated in _tokens(text[:MAX_TEXT]):
        if not token:
            continue
        if not is_pattern:
            terms.append(Term(token.lower(), negated=negated))
            continue
        try:
            terms.append(Term(pattern=Pattern(token), negated=negated))
        except PatternError as error:
            mistake = f"/{token}/: {error}"
    return Filter(tuple(terms), mistake)


@lru_cache(maxsize=8)
def selected(names: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The names that pass the filter ``text``; the same question again costs nothing."""
    return parse_filter(text).select(names) if text.strip() else names


def _tokens(text: str) -> list[tuple[str, bool, bool]]:
    """Each term's text, whether it is a pattern, and whether it is turned around."""
    found: list[tuple[str, bool, bool]] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        negated = text[at] == "!"
        at += negated
        if text[at : at + 1] == "/":
            token, at = _pattern(text, at + 1)
            found.append((token, True, negated))
            continue
        end = at
        while end < len(text) and not text[end].isspace():
            end += 1
        found.append((text[at:end], False, negated))
        at = end
    return found


def _pattern(text: str, at: int) -> tuple[str, int]:
    """The pattern that begins at ``at``, and where the text goes on behind it."""
    characters: list[str] = []
    while at < len(text) and text[at] != "/":
        width = 2 if text[at] == "\\" else 1
        characters.append(text[at : at + width])
        at += width
    return "".join(characters), at + 1
