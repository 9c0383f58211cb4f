"""Textual's parser of keys, which is one of its inner parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast


class KeyParser(Protocol):
    """Text in, messages out."""

    def feed(self, data: str) -> Iterable[Any]:
        """What the next text means. An empty one is the end of all."""
        ...

    def tick(self) -> Iterable[Any]:
        """What is meant by what has come, if nothing more comes."""
        ...


def key_parser() -> KeyParser | None:
    """A new one, ``None`` if this Textual has none of this kind: it then reads keys itself."""
    with contextlib.suppress(ImportError, TypeError):
        from textual._xterm_parser import XTermParser

        made: object = cast("Callable[[], object]", XTermParser)()
        if hasattr(made, "feed") and hasattr(made, "tick"):
            return cast("KeyParser", made)
    return None
