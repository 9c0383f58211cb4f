"""What the keys of a view do, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KeyHelp(NamedTuple):
    """``short`` for the edge of the frame, ``long`` for the help."""

    keys: str
    short: str
    long: str


def edge_hint(keys: Sequence[KeyHelp], width: int) -> str:
    """As many of them, from the first one on, as fit on the edge of a frame ``width`` cells
    wide."""
    hint = ""
    for key in keys:
        longer = f"{hint} · " * bool(hint) + f"{key.keys} {key.short}"
        if len(longer) > width - 4:
            break
        hint = longer
    return hint
