"""The views and the themes by their names. Pure."""

from __future__ import annotations

from typing import Literal

View = Literal["overview", "charts", "ranks", "events", "bus"]

VIEWS: tuple[View, ...] = ("overview", "charts", "ranks", "events", "bus")
"""On the keys 1 to 5."""
THEMES = ("dark", "light", "colour-blind", "ansi")
