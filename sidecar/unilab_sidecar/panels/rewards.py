"""Mean episode return with peak, trend and course, and the reward terms. Pure."""

from __future__ import annotations

from unilab_schema.known_names import MEAN_REWARD
from unilab_sidecar.charting.axes import scale_of
from unilab_sidecar.charting.block_charts import sparkline
from unilab_sidecar.charting.fitting import fitted
from unilab_sidecar.charting.small_curve import curve
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.lines_on_demand import joined
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Lines,
    Segment,
    Style,
    clean,
    line,
    line_width,
    right,
    width_of,
)
from unilab_sidecar.panels.metric_grid import metric_grid
from unilab_sidecar.panels.parts import heading, reading_style, reading_text
from unilab_sidecar.picture import Picture, Rewards, Trend

_TRENDS: dict[Trend, tuple[str, Style]] = {
    "rising": ("↗ rising", "good"),
    "steady": ("→ steady", "label"),
    "falling": ("↘ falling", "warn"),
}
_AXIS_CELLS = 9
_MIN_SPARKLINE = 10
TERM_CELLS = 8
_TITLE = "Rewards"
_TITLE_CELLS = 11
"""With a bit of the rule behind it."""
_IN_ITERATIONS_FROM = 6
"""Rows of a chart that has one for its first and last iteration."""
_MAX_CHART_ROWS = 60
_MEAN_DECIMALS = 3
"""At every width: only the peak is shortened on narrow screens."""
_DOTS = 4


def rewards(
    picture: Picture, width: int, *, rows: int, decimals: int, most: int = _MAX_CHART_ROWS
) -> Lines:
    """The panel in about ``rows`` lines: the chart takes what terms leave, one line at least and
    ``most`` at most."""
    shown = picture.rewards
    if shown.mean is None and not shown.terms:
        return []
    terms = metric_grid(shown.terms, width, value_cells=TERM_CELLS)
    figures = _figures(shown, decimals)
    chart_rows = min(rows - 2 - len(terms), most)
    if chart_rows >= 2 and width >= _AXIS_CELLS + _MIN_SPARKLINE and len(shown.history) > 1:
        figures = _with_period(figures, shown.trend_reports, width)
        lines = [figures, *_chart(shown, width, chart_rows)]
    else:
        lines = _with_sparkline(figures, shown, width)
    title = _title(shown, width)
    note = _window(shown, width - width_of(title) + width_of(_TITLE))
    return joined([heading(title, width, note=note)], lines, terms)


def _title(shown: Rewards, width: int) -> str:
    """With the tag, where it is not the contract's: what a library means by it is its own affair."""
    if shown.tag in ("", MEAN_REWARD):
        return _TITLE
    title = f"{_TITLE}: {clean(shown.tag)}"
    return title if width_of(title) + _TITLE_CELLS <= width else _TITLE


def _window(shown: Rewards, width: int) -> str:
    """What the chart covers, from its left edge to its right one. ``width``: but for the tag."""
    if shown.span is None or len(shown.history) < 2:
        return ""
    text = f"since iter {shown.span[0]:,}"
    if shown.whole_run:
        text = f"iter {shown.span[0]:,} to {shown.span[1]:,}"
        whole = f"whole run, {text}"
        if width_of(whole) + _TITLE_CELLS <= width:
            return whole
    is_cut = width_of(text) + _TITLE_CELLS > width
    return "" if is_cut and shown.tag not in ("", MEAN_REWARD) else text


def _figures(shown: Rewards, decimals: int) -> Line:
    parts: list[Segment] = []
    if shown.mean is not None:
        text = reading_text(shown.mean, formatting.fixed(shown.mean.value, _MEAN_DECIMALS))
        parts += [Segment("Mean ", "label"), Segment(text, reading_style(shown.mean))]
    if shown.peak is None and shown.mean is not None:
        why = "" if shown.is_peak_awaited else " (not known here)"
        parts.append(Segment(f"   Peak -{why}", "label"))
    elif shown.peak is not None:
        peak = formatting.fixed(shown.peak, decimals)
        parts += [Segment("   Peak ", "label"), Segment(peak, "value")]
    if shown.trend is not None:
        words, style = _TRENDS[shown.trend]
        parts.append(Segment(f"   {words}", style))
    return line(*parts)


def _with_period(figures: Line, reports: int, width: int) -> Line:
    """Of how many reports the trend is, where there is room to say it."""
    text = f" (last {reports:,})"
    if not reports or line_width(figures) + width_of(text) > width:
        return figures
    return line(*figures, Segment(text, "dim"))


def _with_sparkline(figures: Line, shown: Rewards, width: int) -> Block:
    with_period = _with_period(figures, shown.trend_reports, width)
    if len(shown.history) < 2:
        return [with_period] if figures else []
    for beside in (with_period, figures):
        room = width - line_width(beside) - 3
        if room >= _MIN_SPARKLINE:
            return [line(*beside, "   ", Segment(sparkline(shown.history, room), "accent"))]
    return [with_period, line(Segment(sparkline(shown.history, width), "accent"))]


def _chart(shown: Rewards, width: int, rows: int) -> Block:
    cells = width - _AXIS_CELLS - 2
    below: Block = []
    if shown.span is not None and rows >= _IN_ITERATIONS_FROM:
        below = [_iterations(*shown.span, cells)]
        rows -= 1
    history = shown.history
    fit = fitted(scale_of(min(history), max(history)), rows, _DOTS)
    body = curve(history, cells, rows, scale=fit.scale)
    labels = [fit.marks[row].label if row in fit.marks else "" for row in range(rows)]
    lines = [
        line(
            Segment(right(label, _AXIS_CELLS), "dim"),
            Segment(" ┤" if label else " │", "dim"),
            *drawn,
        )
        for label, drawn in zip(labels, body, strict=True)
    ]
    return [*lines, *below]


def _iterations(first: int, last: int, cells: int) -> Line:
    begin, end = f"{first:,} ", f" {last:,}"
    rule = "─" * max(cells - len(begin) - len(end), 0)
    return line(Segment(f"{' ' * _AXIS_CELLS} └{begin}{rule}{end}", "dim"))
