"""The charts' view as text, of courses of a thousand updates."""

from __future__ import annotations

from chart_runs import store_of

from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.views.charts import view

RISING = [float(number) for number in range(1, 1001)]
FALLING = [1000.0 / number for number in range(1, 1001)]
NAMES = ("Train/mean_reward", "Loss/critic", "损失/函数值")


def three_courses() -> ChartData:
    """Of :data:`NAMES`; an earlier run has the first one, twice as high and not as long."""
    store = store_of(dict(zip(NAMES, (RISING, FALLING, RISING), strict=True)))
    older = store_of({NAMES[0]: [2.0 * value for value in RISING[:600]]})
    return ChartData(store, tuple(sorted(NAMES)), older, "2026-03-09_18-30-00_numpy")


def screen(data: ChartData, state: ChartState, columns: int = 80, rows: int = 24) -> str:
    return "\n".join(plain(line).rstrip() for line in view(data, state, columns, rows).lines)
