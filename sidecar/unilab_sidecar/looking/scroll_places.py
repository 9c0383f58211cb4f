"""How far down each view was scrolled. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unilab_sidecar.looking.viewing import ViewState


class ScrollTo(NamedTuple):
    """``y``: in lines. ``is_other``: only once what is shown next has been laid out, since it may
    be longer than what is shown now."""

    y: float
    is_other: bool


class ScrollPlaces:
    """Each view stays where it was scrolled to; what is filtered begins at its top, and so do the
    list of commands and the help. One owner, no locks."""

    def __init__(self) -> None:
        self._places: dict[str, float] = {}

    def moved(self, before: ViewState, after: ViewState, y: float) -> ScrollTo | None:
        """Where to go after a key, ``None`` for nowhere. ``y``: where it is now."""
        old, new = _place(before), _place(after)
        if old != new or _lies_over(before) != _lies_over(after):
            if not _lies_over(before):
                self._places[old] = y
            return ScrollTo(0.0 if _lies_over(after) else self._places.get(new, 0.0), True)
        if before.filter != after.filter or before.typing != after.typing:
            return ScrollTo(0.0, False)
        return None


def _place(state: ViewState) -> str:
    return f"{state.view} {state.focus if state.zoomed else ''}"


def _lies_over(state: ViewState) -> tuple[bool, bool] | None:
    if state.palette is None and not state.help:
        return None
    return state.help, state.palette is not None
