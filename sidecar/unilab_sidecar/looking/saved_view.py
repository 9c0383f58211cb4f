"""What a user looked at last, kept for the next time in a file of the user's own.

``$XDG_STATE_HOME/unilab-metrics/sidecar.json``, else below ``~/.local/state``. The theme is for all
runs. Which view was open, and which charts were drawn how, is for runs of one project only: those of
an algorithm whose directories lie in the same one. Never a filter or a pause, which would hide
something from somebody who does not remember them. A file that cannot be read, or says something
else than it should, counts as none; one that cannot be written is no trouble to anybody.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from unilab_metrics.subscribe.small_files import read_small
from unilab_schema.identity import RunInfo
from unilab_schema.known_names import NAMES
from unilab_sidecar.charting.bins import XAxis
from unilab_sidecar.charting.state import ChartState, Overlay
from unilab_sidecar.charting.store import MAX_TAGS
from unilab_sidecar.looking.view_names import THEMES, VIEWS, View
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.views.charts import usual

_FILE = "sidecar.json"
_MOST_BYTES = 65536
_MOST_PROJECTS = 16
_COME_LATER = frozenset((*NAMES["reward"], *NAMES["episode_length"], "Episode/timeout_rate"))
"""With the first finished episode: that a young run lacks them says nothing."""


class SavedPlace(msgspec.Struct, frozen=True, omit_defaults=False):
    """Where somebody was: the view, which tags its charts had, and how they were drawn."""

    tags: tuple[str, ...] = ()
    x_axis: XAxis = "iteration"
    log_y: bool = False
    overlay: Overlay = "apart"
    view: View = "overview"


class Saved(msgspec.Struct, frozen=True, omit_defaults=False):
    """The file's content. ``projects``: by :func:`project_of`, the one that was looked at last at
    the end."""

    theme: str = ""
    projects: dict[str, SavedPlace] = {}


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
    data = read_small(place / _FILE, _MOST_BYTES)
    try:
        return Saved() if data is None else msgspec.json.decode(data, type=Saved)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Saved()


def save(saved: Saved, environ: Mapping[str, str]) -> None:
    """Keeps it for the next time, whole or not at all. Never raises."""
    place = state_place(environ)
    if place is None:
        return
    data = msgspec.json.format(msgspec.json.encode(saved))
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".sidecar-", dir=place)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).replace(place / _FILE)
        except OSError:
            Path(name).unlink(missing_ok=True)


def project_of(picture: Picture) -> str | None:
    """Which runs are a run's kin: those of its algorithm beside it. ``None`` while it is not known."""
    run_dir = picture.run_dir_there or picture.run_dir
    is_known = picture.iteration is not None or picture.run != RunInfo()
    if not run_dir or not is_known:
        return None
    return f"{run_dir.rstrip('/').rpartition('/')[0]} {picture.run.algorithm}"


def saved_of(state: ViewState, saved: Saved, project: str | None) -> Saved:
    """What is kept of a state, beside what was. ``project``: whose run the state is of, ``None``
    while it is nobody's."""
    projects = dict(saved.projects)
    if project is not None:
        projects.pop(project, None)
        one = state.chart
        place = SavedPlace(one.tags, one.x_axis, one.log_y, one.overlay, state.view)
        projects[project] = place
    newest = list(projects)[-_MOST_PROJECTS:]
    return Saved(state.theme, {name: projects[name] for name in newest})


def with_charts(
    chart: ChartState, saved: SavedPlace, known: Collection[str], usual: tuple[str, ...]
) -> ChartState:
    """The charts as they were kept. Tags that the run lacks are left out; if that leaves none, it
    has the usual ones, drawn in the usual way. One that this run has under another known name is
    that one."""
    wanted = tuple(dict.fromkeys(_named_here(tag, known) for tag in saved.tags))[:MAX_TAGS]
    if not any(tag in known for tag in wanted):
        return replace(chart, tags=chart.tags or usual)
    tags = tuple(tag for tag in wanted if tag in known or tag in _COME_LATER)
    return replace(chart, tags=tags, x_axis=saved.x_axis, log_y=saved.log_y, overlay=saved.overlay)


def _named_here(tag: str, known: Collection[str]) -> str:
    if tag in known:
        return tag
    names = next((names for names in NAMES.values() if tag in names), ())
    return next((name for name in names if name in known), tag)


def restored(state: ViewState, saved: Saved) -> ViewState:
    """The state with what was kept for all runs."""
    return replace(state, theme=saved.theme if saved.theme in THEMES else state.theme)


class KeptView:
    """What a user looked at last, from the start of a view to its end. One owner."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._saved = load_saved(environ)
        self._project: str | None = None
        self._has_charts = False

    def restored(self, state: ViewState) -> ViewState:
        """The state with what was kept for all runs."""
        return restored(state, self._saved)

    def of_run(self, state: ViewState, picture: Picture) -> ViewState:
        """The state with what was kept for the run's project: the view as soon as the run is known,
        the charts as soon as its tags are. Each once, unless somebody has chosen others meanwhile."""
        if self._project is None:
            self._project = project_of(picture)
            if self._project is not None and state.view == "overview":
                view = self._saved.projects.get(self._project, SavedPlace()).view
                state = replace(state, view=view if view in VIEWS else state.view)
        if self._project is None or self._has_charts:
            return state
        if picture.iteration is None or not picture.readings:
            return state
        self._has_charts = True
        known = picture.readings
        saved = self._saved.projects.get(self._project, SavedPlace())
        is_open = state.view == "charts"
        if state.chart != ChartState() or not (saved.tags or is_open):
            return state
        first = usual(tuple(known), reward_tag=picture.run.reward_tag) if is_open else ()
        return replace(state, chart=with_charts(state.chart, saved, known, first))

    def keep(self, state: ViewState, first_theme: str) -> None:
        """For the next time. ``first_theme``: the one that the view began with, which may be what
        only this terminal needs and nobody has chosen."""
        # Another view may have kept something since this one began.
        saved = load_saved(self._environ)
        theme = state.theme if state.theme != first_theme else saved.theme
        save(saved_of(replace(state, theme=theme), saved, self._project), self._environ)
