"""The ranks' screen as text, of tables that tests make."""

from __future__ import annotations

from unilab_schema.identity import LEARNER, RunInfo, SourceKey
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.ranks.table import RankTable
from unilab_sidecar.views.ranks import ranks

PICTURE = Picture("training", RunInfo("sac", "cart_pole", world_size=4), connected=True)
USUAL = RanksState()
WALL = "Perf/iteration_time"


def learners(*walls_s: float, **more: list[float]) -> dict[SourceKey, dict[str, float]]:
    """A learner per wall, with further tags."""
    tags = {name.replace("__", "/"): values for name, values in more.items()}
    return {
        SourceKey(rank, LEARNER): {WALL: wall_s} | {tag: v[rank] for tag, v in tags.items()}
        for rank, wall_s in enumerate(walls_s)
    }


def screen(
    table: RankTable, state: RanksState = USUAL, columns: int = 120, rows: int = 40
) -> list[str]:
    return [plain(one).rstrip() for one in ranks(table, PICTURE, state, columns, rows).lines]


def text(table: RankTable, state: RanksState = USUAL, columns: int = 120, rows: int = 40) -> str:
    return "\n".join(screen(table, state, columns, rows))
