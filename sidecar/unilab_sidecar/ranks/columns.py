"""The columns of the table of ranks, as many as a width holds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.known_names import STEPS_PER_S, tag_of
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import Line, Segment, Style, clean, left, line, right, width_of
from unilab_sidecar.ranks.table import STANDING, RankLine, RankTable, at_work

STATES: dict[str, tuple[str, str, Style]] = {
    "live": ("●", "live", "good"),
    "awaited": ("◌", "awaited", "accent"),
    "silent": ("s", "silent", "warn"),
    "finished": ("f", "finished", "dim"),
    "failed": ("X", "failed", "bad"),
    "stopped": ("q", "stopped", "warn"),
    "lost": ("L", "lost", "bad"),
    "gone": ("L", "gone", "bad"),
}
"""A letter for what is not at work, its word, and a colour beside them."""
GONE = frozenset({"lost", "gone"})
SLOWEST = "◀ slowest"
NARROW_BELOW = 100
_TAG_CELLS = 12
_LONG_FROM = 140
_GAP = 1


class Column(NamedTuple):
    """``cell``: its text for a source, any width. ``is_left``: aligned at the left."""

    title: str
    cells: int
    cell: Callable[[RankLine], Segment]
    is_left: bool = False

    def drawn(self, one: RankLine) -> Segment:
        """In exactly its cells."""
        shown = self.cell(one)
        return Segment((left if self.is_left else right)(shown.text, self.cells), shown.style)


def name_of(one: RankLine, *, below: bool) -> str:
    """``below``: beneath its learner, which says the rank."""
    if one.is_learner:
        name = "" if not one.key.instance else f".{one.key.instance}"
        return f"{one.key.rank:>4}{name}"
    which = clean(one.key.role) + (f".{one.key.instance}" if one.key.instance else "")
    return f" └ {which}" if below else f"{one.key.rank:>4} {which}"


def columns(
    table: RankTable,
    shown: Sequence[RankLine],
    tags: Sequence[str],
    width: int,
    *,
    are_chosen: bool = False,
) -> list[Column]:
    """The ones that fit: first who it is and how it stands, then what takes its time, then the
    rest; tags that somebody has chosen come before all that. ``shown``: the rows that there are,
    ``tags``: whose values are wanted."""
    is_narrow = width < NARROW_BELOW
    ranks = {one.key.rank for one in table.lines if one.is_learner}
    names = {one.key: name_of(one, below=one.key.rank in ranks) for one in shown}
    name_cells = min(max((width_of(name) for name in names.values()), default=4), 18)
    name = Column("rank", max(name_cells, 5), _named(names), is_left=True)
    mark = Column("", 9 if is_narrow else 18, _marked(table, is_short=is_narrow), is_left=True)
    state = Column("state", 10, _state, is_left=True)
    age = Column("age", 6 if is_narrow else 7, _age)
    behind = Column("behind", 6 if is_narrow else 7, _behind)
    wall = Column("Iter Wall", 9, _short_wall) if is_narrow else Column("Iter Wall", 11, _wall)
    kept = [name, state, age, behind, wall, mark]
    for least in (behind, age, mark):
        if _taken(kept) > width:
            kept.remove(least)
    room = width - _taken(kept)
    work = Column("Work", 9, _short_work) if is_narrow else Column("Work", 11, _work)
    # Without waits to take out it is the wall.
    works = [work] if table.without_sync else []
    is_anybody = bool(at_work(table))
    steps = Column("Steps/s", 10, _of_the_past(_steps) if is_anybody else _steps)
    phase = _phase(width)
    iteration = Column("iteration", 11, _iteration)
    of_tags = [_of_tag(tag, table) for tag in tags]
    others = [*works, phase, iteration, steps]
    for column in (*works, *of_tags, *others[len(works) :]) if are_chosen else (*others, *of_tags):
        if room >= column.cells + _GAP:
            room -= column.cells + _GAP
            kept.append(column)
    order = [name, state, age, iteration, behind, wall, *works, phase, steps, *of_tags, mark]
    return [column for column in order if column in kept]


def _taken(kept: Sequence[Column]) -> int:
    return sum(column.cells + _GAP for column in kept) - _GAP


def titles(shown: Sequence[Column]) -> Line:
    """What stands above the columns."""
    made = ((left if c.is_left else right)(c.title, c.cells) for c in shown)
    return line(Segment((" " * _GAP).join(made), "label"))


def row(one: RankLine, shown: Sequence[Column]) -> Line:
    """A source's line. Of one that is gone all is of the past."""
    parts: list[Segment] = []
    for place, column in enumerate(shown):
        segment = column.drawn(one)
        if one.state in GONE and place > 1:
            segment = Segment(segment.text, "dim")
        parts += [Segment(" " * _GAP if place else ""), segment]
    return line(*parts)


def tag_title(tag: str) -> str:
    """The part of a tag that tells it apart, in few cells."""
    family, _, name = clean(tag).rpartition("/")
    return name or family


def number(value: float, style: Style = "plain") -> Segment:
    """A value; what is not finite stands out, and its text says it."""
    return Segment(formatting.value(value), style if math.isfinite(value) else "bad")


def _named(names: Mapping[SourceKey, str]) -> Callable[[RankLine], Segment]:
    def cell(one: RankLine) -> Segment:
        if one.state in GONE:
            return Segment(names[one.key], "bad")
        return Segment(names[one.key], "value" if one.is_learner else "label")

    return cell


def _state(one: RankLine) -> Segment:
    mark, word, style = STATES.get(one.state, ("?", clean(one.state), "warn"))
    return Segment(f"{mark} {word}", style)


def _age(one: RankLine) -> Segment:
    style: Style = STATES.get(one.state, ("", "", "warn"))[2] if one.state != "live" else "plain"
    return Segment(formatting.age(one.age_s), style)


def _iteration(one: RankLine) -> Segment:
    if one.iteration is None:
        return Segment(formatting.UNKNOWN if one.is_learner else "", "dim")
    return Segment(f"{one.iteration:,}", "plain")


def _behind(one: RankLine) -> Segment:
    if one.behind is None:
        return Segment(formatting.UNKNOWN if one.is_learner else "", "dim")
    return Segment(f"{one.behind:,}", "warn" if one.behind > 1 else "dim")


def _wall(one: RankLine) -> Segment:
    if one.wall_ms is None:
        return Segment(formatting.UNKNOWN if one.is_learner else "", "dim")
    return Segment(f"{formatting.milliseconds(one.wall_ms)} ms", number(one.wall_ms).style)


def _short_wall(one: RankLine) -> Segment:
    return _without_unit(_wall(one))


def _work(one: RankLine) -> Segment:
    if one.work_ms is None:
        return Segment(formatting.UNKNOWN if one.is_learner else "", "dim")
    return Segment(f"{formatting.milliseconds(one.work_ms)} ms", "plain")


def _short_work(one: RankLine) -> Segment:
    return _without_unit(_work(one))


def _without_unit(shown: Segment) -> Segment:
    return Segment(shown.text.removesuffix(" ms"), shown.style)


def _marked(table: RankTable, *, is_short: bool) -> Callable[[RankLine], Segment]:
    def cell(one: RankLine) -> Segment:
        if one.key != table.slowest or one.over is None:
            return Segment("")
        return Segment(SLOWEST if is_short else f"{SLOWEST} +{percent(one.over)}", "warn")

    return cell


def percent(fraction: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * fraction:,.1f} %" if fraction < 1 else f"{100 * fraction:,.0f} %"


def _phase(width: int) -> Column:
    is_long = width >= _LONG_FROM
    label_cells, ms_cells = (19, 9) if is_long else (11, 5) if width < NARROW_BELOW else (11, 7)
    indent = 0 if width < NARROW_BELOW else 2

    def cell(one: RankLine) -> Segment:
        if one.phase is None:
            unknown = formatting.UNKNOWN if one.is_learner else ""
            return Segment(" " * indent + unknown, "dim")
        label = left(one.phase.label if is_long else one.phase.short_label, label_cells)
        return Segment(f"{' ' * indent}{label} {_ms(one.phase.ms, ms_cells)}", "plain")

    cells = indent + label_cells + 1 + ms_cells
    return Column(f"{' ' * indent}slowest phase, ms", cells, cell, is_left=True)


def _ms(milliseconds: float, cells: int) -> str:
    # Points below each other, as long as the whole fits.
    shown = f"{milliseconds:,.1f}"
    if not 1 <= milliseconds < 10**5 or len(shown) > cells:
        shown = formatting.value(milliseconds, 3)
    return right(shown, cells)


def _steps(one: RankLine) -> Segment:
    known = one.values.get(tag_of("steps_per_s", one.values) or STEPS_PER_S)
    if known is None:
        return Segment(formatting.UNKNOWN if one.is_learner else "", "dim")
    return Segment(formatting.rate(known.value), number(known.value).style)


def _of_tag(tag: str, table: RankTable) -> Column:
    roles = {one.key.role for one in table.lines if tag in one.values} or {LEARNER}

    def cell(one: RankLine) -> Segment:
        known = one.values.get(tag)
        if known is None:
            return Segment(formatting.UNKNOWN if one.key.role in roles else "", "dim")
        shown = number(known.value, "value")
        if known.is_stale:
            return Segment(f"({shown.text})", "dim" if math.isfinite(known.value) else "bad")
        return shown

    return Column(tag_title(tag), _TAG_CELLS, _of_the_past(cell) if at_work(table) else cell)


def _of_the_past(cell: Callable[[RankLine], Segment]) -> Callable[[RankLine], Segment]:
    """While others are at work, the last value of who is not stands in parentheses."""

    def marked(one: RankLine) -> Segment:
        shown = cell(one)
        if one.state in STANDING or shown.text in ("", formatting.UNKNOWN) or shown.text[0] == "(":
            return shown
        return Segment(f"({shown.text})", "dim")

    return marked
