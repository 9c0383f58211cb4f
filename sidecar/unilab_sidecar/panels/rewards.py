"""Mean episode return with peak, trend and course, and the reward terms. Pure."""

from __future__ import annotations

from unilab_sidecar import formatting
from unilab_sidecar.charts import area, sparkline
from unilab_sidecar.panels.parts import grid, heading, metric_cell, reading_style, reading_text
from unilab_sidecar.picture import Picture, Rewards, Trend
from unilab_sidecar.text import Block, Line, Segment, Style, line, line_width, right, width_of

_TRENDS: dict[Trend, tuple[str, Style]] = {
    "rising": ("↗ rising", "good"),
    "steady": ("→ steady", "label"),
    "falling": ("↘ falling", "warn"),
}
_AXIS_CELLS = 9
_MIN_SPARKLINE = 10
_MAX_CHART_ROWS = 30


def rewards(picture: Picture, width: int, *, rows: int, decimals: int) -> Block:
    """The panel in about ``rows`` lines: the chart takes what terms leave, one line at least."""
    shown = picture.rewards
    if shown.mean is None and not shown.terms:
        return []
    terms = grid([metric_cell(metric) for metric in shown.terms], width)
    figures = _figures(shown, decimals)
    chart_rows = min(rows - 2 - len(terms), _MAX_CHART_ROWS)
    if chart_rows >= 2 and width >= _AXIS_CELLS + _MIN_SPARKLINE and len(shown.history) > 1:
        lines = [figures, *_chart(shown.history, width, chart_rows)]
    else:
        lines = _with_sparkline(figures, shown.history, width)
    return [heading("Rewards", width, note=_window(shown, width)), *lines, *terms]


def _window(shown: Rewards, width: int) -> str:
    """What the chart covers, from its left edge to its right one."""
    if shown.span is None or len(shown.history) < 2:
        return ""
    text = f"iter {shown.span[0]:,} to {shown.span[1]:,}"
    covered = "whole run" if shown.whole_run else f"last {len(shown.history)} reports"
    whole = f"{covered}, {text}"
    return whole if width_of(whole) + _MIN_SPARKLINE + 8 <= width else text


def _figures(shown: Rewards, decimals: int) -> Line:
    parts: list[Segment] = []
    if shown.mean is not None:
        text = reading_text(shown.mean, formatting.fixed(shown.mean.value, decimals))
        parts += [Segment("Mean ", "label"), Segment(text, reading_style(shown.mean))]
    if shown.peak is not None:
        peak = formatting.fixed(shown.peak, decimals)
        parts += [Segment("   Peak ", "label"), Segment(peak, "value")]
    if shown.trend is not None:
        words, style = _TRENDS[shown.trend]
        parts.append(Segment(f"   {words}", style))
    return line(*parts)


def _with_sparkline(figures: Line, history: tuple[float, ...], width: int) -> Block:
    if len(history) < 2:
        return [figures] if figures else []
    room = width - line_width(figures) - 3
    if room >= _MIN_SPARKLINE:
        return [line(*figures, "   ", Segment(sparkline(history, room), "accent"))]
    return [figures, line(Segment(sparkline(history, width), "accent"))]


def _chart(history: tuple[float, ...], width: int, rows: int) -> Block:
    labels = [""] * rows
    labels[0] = formatting.value(max(history))
    labels[-1] = formatting.value(min(history))
    body = area(history, width - _AXIS_CELLS - 2, rows)
    return [
        line(
            Segment(right(label, _AXIS_CELLS), "dim"),
            Segment(" ┤" if label else " │", "dim"),
            Segment(columns, "accent"),
        )
        for label, columns in zip(labels, body, strict=True)
    ]
