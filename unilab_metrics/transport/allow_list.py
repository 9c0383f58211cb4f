"""The allow-list: which public keys may connect over TCP, and what for. Pure.

One key a line, like ssh's ``authorized_keys``:

    <use> <public key> [ranks=<list>] [name]

``use`` is ``publish`` or ``watch``; the key is 40 characters of z85; ``ranks`` restricts a
publishing key, as in ``ranks=0,4-7``; the rest is for people. Lines that begin with ``#``
are comments; to make a key's line one revokes the key. A line that makes no sense grants
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

Use = Literal["publish", "watch"]
PUBLISH: Final = "publish"
WATCH: Final = "watch"
MAX_KEYS = 65_536

_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_RANKS = re.compile(r"ranks=([0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)")


class Grant(NamedTuple):
    """What a key may do. ``ranks``: as which ranks it may publish, as inclusive ranges;
    ``None`` for all."""

    use: Use
    ranks: tuple[tuple[int, int], ...] | None = None
    name: str = ""

    def covers(self, rank: int) -> bool:
        """Whether the key may publish as this rank."""
        if self.use != PUBLISH:
            return False
        return self.ranks is None or any(low <= rank <= high for low, high in self.ranks)


class AllowList(NamedTuple):
    """``problems``: lines that grant nothing, in words. ``revoked``: keys whose line somebody
    has made a comment."""

    grants: dict[str, Grant]
    problems: tuple[str, ...] = ()
    revoked: frozenset[str] = frozenset()


NOBODY = AllowList({})


def is_public_key(text: str) -> bool:
    """Whether this looks like a CURVE key in z85."""
    return bool(_KEY.fullmatch(text))


def parse(text: str) -> AllowList:
    """The list in a file's text; of two lines for one key the first counts."""
    grants: dict[str, Grant] = {}
    problems: list[str] = []
    revoked: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            revoked |= _revoked_by(line)
            continue
        try:
            key, grant = _parse_line(words)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if key in grants:
            problems.append(f"line {number}: the key is listed twice, the first line counts")
        elif len(grants) >= MAX_KEYS:
            problems.append(f"line {number}: more than {MAX_KEYS} keys")
            break
        else:
            grants[key] = grant
    return AllowList(grants, tuple(problems), frozenset(revoked - grants.keys()))


def render(use: Use, key: str, *, ranks: Iterable[int] | None = None, name: str = "") -> str:
    """A line of the list, without its end. Raises ``ValueError`` for what is no key."""
    if not is_public_key(key):
        raise ValueError("no public key in z85")
    words: list[str] = [use, key]
    if ranks is not None:
        words.append("ranks=" + ",".join(str(rank) for rank in sorted(set(ranks))))
    return " ".join([*words, *name.split()])


def _revoked_by(comment: str) -> set[str]:
    """The key of a comment that was a line."""
    try:
        return {_parse_line(comment.lstrip("# \t").split())[0]}
    except (ValueError, IndexError):
        return set()


def _parse_line(words: list[str]) -> tuple[str, Grant]:
    use, key, rest = words[0], "".join(words[1:2]), words[2:]
    if use not in {PUBLISH, WATCH}:
        raise ValueError("begins with neither publish nor watch")
    if not is_public_key(key):
        raise ValueError("has no public key of 40 characters in z85")
    ranks = None
    if rest and rest[0].startswith("ranks="):
        if use != PUBLISH:
            raise ValueError("a key for watching has no ranks")
        ranks = _parse_ranks(rest.pop(0))
    return key, Grant(PUBLISH if use == PUBLISH else WATCH, ranks, " ".join(rest))


def _parse_ranks(word: str) -> tuple[tuple[int, int], ...]:
    matched = _RANKS.fullmatch(word)
    if matched is None:
        raise ValueError("ranks are numbers and ranges, as in ranks=0,4-7")
    ranges: list[tuple[int, int]] = []
    for part in matched[1].split(","):
        low, _, high = part.partition("-")
        if int(low) > int(high or low):
            raise ValueError(f"the range {part} is empty")
        ranges.append((int(low), int(high or low)))
    return tuple(ranges)
