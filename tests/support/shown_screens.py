"""Everything that a screen is made of, from the sample run, for each view."""

from __future__ import annotations

from dataclasses import replace

from sample_run import SampleRun, whole_run

from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.drawing.layout import Screen
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.looking.showing import Shown, context, screen
from unilab_sidecar.looking.viewing import ViewState, press
from unilab_sidecar.ranks.table import RankStore
from unilab_sidecar.series import Series
from unilab_sidecar.views.charts import usual

NOON = "12:00:00"


def shown_of(run: SampleRun, batches: list, *, unicode: bool = True) -> Shown:  # type: ignore[type-arg]
    """What the app would show after these batches."""
    series, charts = Series(), ChartKeeping(usual)
    for batch in batches:
        series.add(batch)
        charts.add(batch.records, is_paused=False)
    picture = series.picture()
    known = tuple(sorted(picture.readings))
    data = ChartData(charts.store, known)
    table = RankStore().table(known, picture.sources)
    return Shown(picture, data, table, 1000.0, unicode)


def sample_shown(iterations: int = 300) -> Shown:
    """A run in the middle of its training."""
    return shown_of(*whole_run(iterations))


def typed(
    shown: Shown, state: ViewState, *keys: str, size: tuple[int, int] = (100, 30)
) -> ViewState:
    """The state after some keys on a screen of this size."""
    for key in keys:
        state = press(state, key, context(shown, state, *size, NOON))
    return state


def text_of(made: Screen) -> str:
    return "\n".join([made.title, *map(plain, made.lines), made.hint])


def seen(shown: Shown, *keys: str, size: tuple[int, int] = (100, 30)) -> str:
    """The whole screen as text after some keys."""
    state = typed(shown, ViewState(), *keys, size=size)
    return text_of(screen(replace(shown), state, *size))
