"""What every view has in common: the frame, the tiers of width, and the screen itself. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unilab_sidecar.drawing.text import Lines

BESIDE_FROM = 96
"""Columns from which panels stand beside each other."""
SYSTEM_FROM = 120
"""Columns from which there is a third one."""
FRAME_CELLS = 5
"""Border, margins and the scroll bar's column."""
FRAME_ROWS = 2
"""The title and the lower border."""


class Screen(NamedTuple):
    """``lines`` take at most the columns inside the frame, ``title`` and ``hint`` lie on it."""

    title: str
    hint: str
    lines: Lines
