"""What of the screen is sent to the terminal: the cells that changed, in few bytes.

Textual sends of a changed line all from its left edge on, because it cuts only at the right. Where
its inner parts are not those that are known here, what it would send is sent.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from rich.control import Control

from unilab_sidecar.terminal.escapes import squeezed

if TYPE_CHECKING:
    from rich.console import Console


class _Nothing:
    """Of which there is no instance."""


def _inner(name: str) -> Any:
    with contextlib.suppress(ImportError):
        return getattr(importlib.import_module("textual._compositor"), name, _Nothing)
    return _Nothing


_Update: type[Any] = _inner("CompositorUpdate")
_CHOPS, _LAYOUT = _inner("ChopsUpdate"), _inner("LayoutUpdate")


class _Economical(_Update):
    """``usual``: what Textual has made."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def render_segments(self, console: Console) -> str:
        """As text for the terminal."""
        with contextlib.suppress(Exception):
            return squeezed(self._text(console))
        return self.usual.render_segments(console)

    def _text(self, console: Console) -> str:
        return self.usual.render_segments(console)


class WholeScreen(_Economical):
    """Everything."""


class ChangedCells(_Economical):
    """The spans of lines that changed."""

    def _text(self, console: Console) -> str:
        """The spans of a line are apart from each other."""
        made: list[str] = []
        usual = self.usual
        for y, first, end in usual.spans:
            for strip_end, (x, strip) in zip(
                usual.chop_ends[y], usual.chops[y].items(), strict=False
            ):
                start, stop = max(x, first), min(strip_end, end)
                if strip is None or start >= stop:
                    continue
                made.append(Control.move_to(start, y).segment.text)
                made.append(strip.crop(start - x, stop - x).render(console))
        return "".join(made)


def _is_known() -> bool:
    """Whether spans are told as they are read here."""
    names = tuple(inspect.signature(_CHOPS.__init__).parameters)
    return names == ("self", "chops", "spans", "chop_ends")


_CUTS = _is_known()


def economical(update: object) -> Any:
    """The same update in fewer bytes. What is no update of a screen stays as it is."""
    if type(update) is _CHOPS and _CUTS:
        return ChangedCells(update)
    if type(update) is _LAYOUT:
        return WholeScreen(update)
    return update
