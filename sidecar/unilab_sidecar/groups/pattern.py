"""Regular expressions that cannot hang the screen.

Python's ``re`` tries alternatives one after the other and cannot be interrupted, so that an
innocent ``(a+)+b`` would hold the screen's thread for minutes. The ``regex`` package has the same
language and a time limit. Names that each stay below the limit add up, too: all that a pattern
takes is limited by what it is asked. Both are processor time: on a machine that has others to
serve no pattern is slower than elsewhere.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

_LIMIT_S = 0.02
"""For one name; the slowest that is not meant to hang takes some microseconds."""
_SPARE_S, _PER_NAME_S, _PER_CHARACTER_S = 0.04, 8e-6, 1e-7
"""For all names together: 12,345 of them may take 0.17 s, and take 0.02 s as a rule."""
_AT_ONCE = 4
"""Names between two looks at the clock."""
_MOST_REPEATS = 10_000
_COUNTS = re.compile(r"\{(\d+)?(?:,(\d+))?\}")


class PatternError(ValueError):
    """A text that is no regular expression; says what is wrong with it."""


class Pattern:
    """A compiled pattern. ``is_too_slow``: a name has taken its whole time, or all together theirs;
    from then on everything matches, as if the pattern were not there. One owner."""

    def __init__(self, text: str) -> None:
        """Raises :class:`PatternError` with a sentence that says what is wrong with ``text``."""
        # Most who look never type one, and it is slow to import.
        import regex

        counts = [int(most or least or 1) for least, most in _COUNTS.findall(text)]
        if math.prod(max(count, 1) for count in counts) > _MOST_REPEATS:
            # Compiling writes them all out.
            raise PatternError("too many repeats")
        try:
            self._compiled = regex.compile(text, regex.IGNORECASE)
        except (regex.error, RecursionError, OverflowError) as error:
            raise PatternError(str(error) or "nested too deeply") from error
        self.is_too_slow = False
        self._left_s = _SPARE_S

    def is_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in ``text``, whatever the case."""
        return self.found_in((text,))[0]

    def found_in(self, texts: Sequence[str]) -> list[bool]:
        """Of each text whether the pattern matches anywhere in it, whatever the case. All are, once
        it is too slow."""
        found: list[bool] = []
        for first in range(0, len(texts), _AT_ONCE):
            if self.is_too_slow:
                break
            found += self._searched(texts[first : first + _AT_ONCE])
        return [True] * len(texts) if self.is_too_slow else found

    def _searched(self, texts: Sequence[str]) -> list[bool]:
        began_s = time.thread_time()
        try:
            found = [self._compiled.search(one, timeout=_LIMIT_S) is not None for one in texts]
        except TimeoutError:
            self.is_too_slow = True
            return []
        allowed_s = len(texts) * _PER_NAME_S + sum(map(len, texts)) * _PER_CHARACTER_S
        taken_s = time.thread_time() - began_s
        self._left_s = min(self._left_s + allowed_s - taken_s, _SPARE_S)
        self.is_too_slow = self._left_s < 0
        return found
