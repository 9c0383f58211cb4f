"""Key 3: each rank beside the others. Pure."""

from __future__ import annotations

from unilab_sidecar.alerts import missing_ranks
from unilab_sidecar.layout import FRAME_CELLS, Screen
from unilab_sidecar.panels import bus
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Segment, clip, line
from unilab_sidecar.viewing import ViewState

_ALL = 20_000


def view(picture: Picture, _data: None, _state: ViewState, columns: int, _rows: int) -> Screen:
    """Who takes part; values of single ranks have to be asked for, which nobody has done."""
    width = max(columns - FRAME_CELLS, 1)
    lines: Block = []
    if missing := missing_ranks(picture):
        lines += [line(Segment(f"! {missing}", "bad")), ()]
    lines += bus.sources(picture, width, _ALL)
    if not lines:
        lines = [(), line(Segment("No rank has said anything yet.", "label"))]
    return Screen("Ranks", "", [clip(parts, width) for parts in lines])
