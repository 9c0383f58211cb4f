"""Colours for dark, light and sixteen-colour terminals, and for eyes that mix up red and green."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

_DARK = BUILTIN_THEMES["tokyo-night"]
_ANSI = BUILTIN_THEMES["ansi-dark"]


def _series(*colours: str) -> dict[str, str]:
    return {f"series{place}": colour for place, colour in enumerate(colours, start=1)}


THEMES = (
    Theme(
        name="dark",
        primary=_DARK.primary,
        secondary=_DARK.secondary,
        warning=_DARK.warning,
        error=_DARK.error,
        success=_DARK.success,
        accent=_DARK.accent,
        foreground=_DARK.foreground,
        background=_DARK.background,
        surface=_DARK.surface,
        panel=_DARK.panel,
        variables=_series("#7AA2F7", "#FF9E64", "#9ECE6A", "#BB9AF7", "#E0AF68", "#C0CAF5"),
    ),
    Theme(
        name="light",
        primary="#5A3FC0",
        secondary="#1F5FBF",
        warning="#8A5300",
        error="#B3161F",
        success="#1B6E2D",
        accent="#A6420B",
        foreground="#22242C",
        background="#FBFAF7",
        surface="#F0EEE8",
        panel="#DEDBD2",
        dark=False,
        variables=_series("#1F5FBF", "#A6420B", "#1B6E2D", "#5A3FC0", "#8A5300", "#22242C"),
    ),
    # The colours of Okabe and Ito, which no common kind of colour blindness makes alike.
    Theme(
        name="colour-blind",
        primary="#56B4E9",
        secondary="#0095E0",
        warning="#F0E442",
        error="#FF8A3C",
        success="#56B4E9",
        accent="#CC79A7",
        foreground="#D8D8D8",
        background="#111318",
        surface="#1D2027",
        panel="#333843",
        variables=_series("#56B4E9", "#E69F00", "#00B98A", "#CC79A7", "#F0E442", "#D8D8D8"),
    ),
    Theme(
        name="ansi",
        primary="ansi_blue",
        secondary="ansi_cyan",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        accent="ansi_magenta",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        variables=_ANSI.variables
        | _series(
            "ansi_cyan",
            "ansi_magenta",
            "ansi_green",
            "ansi_blue",
            "ansi_yellow",
            "ansi_default",
        ),
        ansi=True,
    ),
)
"""Registered by the app, in the order of ``viewing.THEMES``."""
