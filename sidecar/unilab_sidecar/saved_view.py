"""What a user looked at last, kept for the next time in a file of the user's own.

``$XDG_STATE_HOME/unilab-metrics/sidecar.json``, else below ``~/.local/state``: the theme, the
view, and which charts were drawn how. Never a filter or a pause, which would hide something from
somebody who does not remember them. A file that cannot be read, or says something else than it
should, counts as none; one that cannot be written is no trouble to anybody.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from unilab_sidecar.chart_bins import XAxis
from unilab_sidecar.chart_state import Overlay
from unilab_sidecar.chart_store import MAX_TAGS
from unilab_sidecar.viewing import THEMES, VIEWS, View, ViewState

_FILE = "sidecar.json"
_MOST_BYTES = 65536


class Saved(msgspec.Struct, frozen=True, omit_defaults=False):
    """The file's content."""

    theme: str = ""
    view: View = "overview"
    tags: tuple[str, ...] = ()
    x_axis: XAxis = "iteration"
    log_y: bool = False
    overlay: Overlay = "apart"


def state_place(environ: Mapping[str, str]) -> Path | None:
    """Our directory for what outlives a run, ``None`` for a user without a home."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        home = Path(os.path.expanduser("~"))
        if not home.is_absolute():
            return None
        state = home / ".local" / "state"
    return state / "unilab-metrics"


def load_saved(environ: Mapping[str, str]) -> Saved:
    """The user's last one, a new one without. Never raises."""
    place = state_place(environ)
    if place is None:
        return Saved()
    try:
        with (place / _FILE).open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=Saved)
    except (OSError, msgspec.MsgspecError, ValueError):
        return Saved()


def save(state: ViewState, environ: Mapping[str, str]) -> None:
    """Keeps it for the next time, whole or not at all. Never raises."""
    place = state_place(environ)
    if place is None:
        return
    data = msgspec.json.format(msgspec.json.encode(saved_of(state)))
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".sidecar-", dir=place)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).replace(place / _FILE)
        except OSError:
            Path(name).unlink(missing_ok=True)


def saved_of(state: ViewState) -> Saved:
    """What is kept of a state."""
    chart = state.chart
    return Saved(state.theme, state.view, chart.tags, chart.x_axis, chart.log_y, chart.overlay)


def restored(state: ViewState, saved: Saved) -> ViewState:
    """The state with what was kept; what does not exist any more is left out."""
    chart = replace(
        state.chart,
        tags=tuple(dict.fromkeys(saved.tags))[:MAX_TAGS],
        x_axis=saved.x_axis,
        log_y=saved.log_y,
        overlay=saved.overlay,
    )
    return replace(
        state,
        view=saved.view if saved.view in VIEWS else state.view,
        theme=saved.theme if saved.theme in THEMES else state.theme,
        chart=chart,
    )
