"""Colours that can be read, and told apart by eyes that mix up red and green."""

from __future__ import annotations

from itertools import combinations

import pytest
from textual.color import Color
from textual.theme import Theme

from unilab_sidecar.looking import viewing
from unilab_sidecar.terminal.themes import THEMES

READABLE = 4.5
"""Contrast that people with moderately low vision need, by WCAG 2."""
WITH_SHADES = [theme for theme in THEMES if not theme.ansi]


def colours(theme: Theme) -> dict[str, Color]:
    named = {
        name: getattr(theme, name)
        for name in ("primary", "secondary", "warning", "error", "success", "foreground")
    }
    named |= {f"series{n}": theme.variables[f"series{n}"] for n in range(1, 7)}
    return {name: Color.parse(value) for name, value in named.items()}


def luminance(colour: Color) -> float:
    parts = [value / 255 for value in (colour.r, colour.g, colour.b)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(f * p for f, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: Color, other: Color) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def without_red_and_green(colour: Color) -> tuple[float, float, float]:
    """About what a person without red receptors sees (Viénot, Brettel and Mollon 1999)."""
    r, g, b = (value / 255 for value in (colour.r, colour.g, colour.b))
    return (0.1124 * r + 0.8876 * g, 0.1124 * r + 0.8876 * g, 0.004 * r - 0.004 * g + b)


def test_every_theme_that_can_be_chosen_is_there_and_the_other_way_round():
    assert tuple(theme.name for theme in THEMES) == viewing.THEMES


@pytest.mark.parametrize("theme", WITH_SHADES, ids=lambda theme: theme.name)
def test_everything_can_be_read(theme: Theme):
    background = Color.parse(theme.background or "#000000")
    for name, colour in colours(theme).items():
        assert contrast(colour, background) >= READABLE, name
    black_or_white = background.get_contrast_text(1.0)
    for share in (0.56, 0.72):
        assert contrast(background.blend(black_or_white, share), background) >= READABLE, share


def test_good_warning_and_bad_are_told_apart_without_red_and_green():
    theme = next(theme for theme in THEMES if theme.name == "colour-blind")
    named = colours(theme)
    for one, other in combinations(("success", "warning", "error"), 2):
        seen = [without_red_and_green(named[name]) for name in (one, other)]
        distance = sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5
        assert distance > 0.2, (one, other)


def test_the_theme_of_sixteen_colours_has_no_other():
    theme = next(theme for theme in THEMES if theme.ansi)
    named = [theme.primary, theme.secondary, theme.warning, theme.error, theme.success,
             theme.accent, theme.foreground, theme.background]  # fmt: skip
    named += [theme.variables[f"series{n}"] for n in range(1, 7)]
    assert all(str(name).startswith("ansi_") for name in named)
