"""Regular expressions that cannot hang the screen.

Python's ``re`` tries alternatives one after the other and cannot be interrupted, so that an
innocent ``(a+)+b`` would hold the screen's thread for minutes. The ``regex`` package has the same
language and a time limit.
"""

from __future__ import annotations

import math

import regex

_LIMIT_S = 0.02
"""For one name; the slowest that is not meant to hang takes some microseconds."""
_MOST_REPEATS = 10_000
_COUNTS = regex.compile(r"\{(\d+)?(?:,(\d+))?\}")


class PatternError(ValueError):
    """A text that is no regular expression; says what is wrong with it."""


class Pattern:
    """A compiled pattern. ``is_too_slow``: a name has taken its whole time; from then on everything
    matches, as if the pattern were not there. One owner."""

    def __init__(self, text: str) -> None:
        """Raises :class:`PatternError` with a sentence that says what is wrong with ``text``."""
        counts = [int(most or least or 1) for least, most in _COUNTS.findall(text)]
        if math.prod(max(count, 1) for count in counts) > _MOST_REPEATS:
            # Compiling writes them all out.
            raise PatternError("too many repeats")
        try:
            self._compiled = regex.compile(text, regex.IGNORECASE)
        except (regex.error, RecursionError, OverflowError) as error:
            raise PatternError(str(error) or "nested too deeply") from error
        self.is_too_slow = False

    def is_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in ``text``, whatever the case."""
        if not self.is_too_slow:
            try:
                return self._compiled.search(text, timeout=_LIMIT_S) is not None
            except TimeoutError:
                self.is_too_slow = True
        return True
