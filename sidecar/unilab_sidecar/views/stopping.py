"""The question before a training is stopped. Pure."""

from __future__ import annotations

from unilab_sidecar.drawing.layout import FRAME_CELLS, Screen
from unilab_sidecar.drawing.text import Block, Segment, clean, clip, line
from unilab_sidecar.picture import Picture

REFUSED = {
    "explain": "stopping needs --allow-control, where the training runs",
    "unread": "not stopped: press K, read the question, then y",
}
"""Why nobody was asked to stop, by what a key has asked for."""


def view(picture: Picture, columns: int) -> Screen:
    """Names the run; only ``y`` means yes."""
    width = max(columns - FRAME_CELLS, 1)
    name = f"{picture.run.algorithm} {picture.run.task}".strip() or "this run"
    lines: Block = [
        (),
        line(Segment(f"Stop the training {clean(name)}?", "bad")),
        (),
        line(Segment("Its learners on this node get what Ctrl+C would send them.", "label")),
        line(Segment("y  stop it        any other key  no", "value")),
    ]
    return Screen(
        "Stop?", "y stop the training · any other key no", [clip(p, width) for p in lines]
    )
