"""What a training gave and nobody could log: counted by reason, and named once per thing, as an
event and in ``publisher.errors``, never on the terminal. Any thread may call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unilab_metrics.drop_words import counted_drops
from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.signal_handlers import is_of_signal_handler
from unilab_metrics.publish.tags import clean_text
from unilab_metrics.wording import counted

MISTAKES = (
    losses.BAD_STEP,
    losses.BAD_VALUE,
    losses.BAD_TAG,
    losses.BAD_CALL,
    losses.TOO_MANY_TAGS,
    losses.INTERNAL_ERROR,
)
"""Reasons that lie in what was given, or in us, and not in where it was to go."""
_MAX_WARNINGS = 256
_MAX_TEXT = 8192
_MOST_SHOWN = 3
_MOST_KEPT = 8
"""Of them in :attr:`Losses.errors`, so that what is wrong with the bus has room there too."""

Tell = Callable[[str, str, None, dict[str, Any]], None]
"""Appends an event: its kind, text, iteration and data."""


class Refusals:
    """Of one publisher."""

    def __init__(self, counted: Losses, tell: Tell) -> None:
        self._losses = counted
        self._tell = tell
        self._named: set[str] = set()
        self._texts: list[str] = []

    def refuse(self, reason: str, what: str, text: str) -> None:
        """Count it, if ``reason`` is given, and say so once per ``what``."""
        if reason:
            self._losses.count(reason)
        self._name(reason, clean_text(what), f"{clean_text(what)}: {text}")

    def failed(self, error: Exception) -> None:
        """Our own code has raised. Raises only what a signal handler of the training does."""
        self._losses.internal_error(error)
        text = f"{type(error).__name__}: {error}"
        try:
            self._name(losses.INTERNAL_ERROR, text, text)
        except Exception as another:
            if is_of_signal_handler(another):
                raise

    def all_text(self) -> str:
        """What is to be said at the end of a training of which nothing at all was logged; empty if
        that was not for a mistake of its own."""
        counts = self._losses.counts
        mistakes = [counted_drops(one, counts[one]) for one in MISTAKES if counts.get(one)]
        if not mistakes:
            return ""
        shown = "; ".join(self._texts)
        more = len(self._named) - len(self._texts)
        rest = f"; and {counted(more, 'thing')} more" if more > 0 else ""
        return f"nothing that the training gave was logged: dropped {', '.join(mistakes)} ({shown}{rest})"

    def _name(self, reason: str, what: str, text: str) -> None:
        if what in self._named or len(self._named) >= _MAX_WARNINGS:
            return
        self._named.add(what)
        if reason and len(self._texts) < _MOST_SHOWN:
            self._texts.append(text[:_MAX_TEXT])
        if reason and len(self._named) <= _MOST_KEPT:
            self._losses.keep(text[:_MAX_TEXT])
        self._tell("warning", text[:_MAX_TEXT], None, {"reason": reason})
