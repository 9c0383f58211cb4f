"""Which of several commands is meant by typed words. Pure."""

from __future__ import annotations

_FILLING = frozenset({"a", "after", "as", "in", "is", "it", "or", "the", "until", "what"})
"""Nobody looks for a command by these: who types one of them types the beginning of another."""


def rank(words: list[str], keys: str, name: str) -> int | None:
    """How far a command is from the typed words, in small letters; ``None``: it lacks one of them.
    Nearest are its key, and the beginnings of words of its name."""
    name = name.lower()
    begins = [part for part in name.split() if part.strip(",;:") not in _FILLING]
    total = 0
    for word in words:
        if word == keys.lower():
            continue
        if any(part.startswith(word) for part in begins):
            total += 1
        elif word in f"{keys.lower()} {name}":
            total += 2
        else:
            return None
    return total
