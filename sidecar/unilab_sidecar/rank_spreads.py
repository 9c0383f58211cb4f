"""Least, mean and most over the ranks, and who holds them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.phases import PhaseSpec
from unilab_schema.rank_values import RankSpread
from unilab_sidecar import formatting
from unilab_sidecar.rank_columns import tag_title
from unilab_sidecar.rank_table import GRADIENT_SYNC_MS, STANDING, STEPS_PER_S, RankTable
from unilab_sidecar.text import Block, Line, Segment, Style, clean, left, line, width_of


class _Shown(NamedTuple):
    """``short``: the name where there is little room. ``who``: names a holder. ``adds_up``: their
    sum means something."""

    name: str
    short: str
    spread: RankSpread
    write: Callable[[float], str]
    who: Callable[[SourceKey | None], str]
    adds_up: bool = False


def spreads(table: RankTable, tags: Sequence[str], width: int, rows: int) -> Block:
    """The iteration wall, steps per second, the tags and the phases, a line each, at most
    ``rows``."""
    shown: list[_Shown] = []
    if (wall := _wall(table)) is not None:
        names = "Iter Wall, ms", "Wall, ms"
        shown.append(_Shown(*names, wall, formatting.milliseconds, who))
    for tag in (STEPS_PER_S, GRADIENT_SYNC_MS, *tags):
        spread = table.spreads.get(tag)
        if spread is not None and (spread.count or spread.nonfinite):
            holder = _holders(table, tag)
            if tag == STEPS_PER_S:
                names, write = ("Steps/s", "Steps/s"), formatting.rate
                shown.append(_Shown(*names, spread, write, holder, adds_up=True))
            elif tag == GRADIENT_SYNC_MS:
                names, write = ("DP Sync, ms", "Sync, ms"), formatting.milliseconds
                shown.append(_Shown(*names, spread, write, holder))
            else:
                names = clean(tag), tag_title(tag)
                shown.append(_Shown(*names, spread, formatting.value, holder))
    for phase in table.phases:
        spread = table.spreads.get(phase.tag)
        if spread is not None and spread.count and phase.tag not in tags:
            names = f"{phase.label}, ms", f"{phase.short_label}, ms"
            shown.append(_Shown(*names, spread, _in_ms(phase), _holders(table, phase.tag)))
    shown = shown[: max(rows, 0)]
    if not shown:
        return []
    texts = [(*_ends(one), _mean(one), _beside(one)) for one in shown]
    cells = [max(width_of(row[place]) for row in texts) for place in range(3)]
    names, gap = _fitting(shown, width - sum(cells))
    return [_line(name, row, cells, width, gap) for name, row in zip(names, texts, strict=True)]


def _fitting(shown: list[_Shown], room: int) -> tuple[list[str], int]:
    """The names in the cells that the values leave, and how far apart all stand: who holds what
    is more than the first part of a name."""
    names, short = [one.name for one in shown], [one.short for one in shown]
    for tried, gap in ((names, 2), (short, 2), (short, 1)):
        cells = min(max(map(width_of, tried)), 24)
        if cells + 3 * gap <= room:
            return [left(name, cells) for name in tried], gap
    cells = max(room - 3, 8)
    return [left(name, cells) for name in short], 1


def who(key: SourceKey | None) -> str:
    """``rank 7``, ``rank 7 collector.1``."""
    if key is None:
        return ""
    if key.role == LEARNER and not key.instance:
        return f"rank {key.rank}"
    return f"rank {key.rank} {clean(key.role)}" + (f".{key.instance}" if key.instance else "")


def _holders(table: RankTable, tag: str) -> Callable[[SourceKey | None], str]:
    """How those who have the tag are named: by their ranks if that tells them apart."""
    keys = [one.key for one in table.lines if tag in one.values]
    is_clear = len({key.role for key in keys}) == 1 and not any(key.instance for key in keys)
    return _rank if is_clear else who


def _rank(key: SourceKey | None) -> str:
    return "" if key is None else f"rank {key.rank}"


def _wall(table: RankTable) -> RankSpread | None:
    """Of what the table shows as the wall, which may be what the phases account for."""
    walls = [
        (one.wall_ms, one.key)
        for one in table.lines
        if one.wall_ms is not None and one.state in STANDING | {"finished"}
    ]
    finite = [(ms, key) for ms, key in walls if math.isfinite(ms)]
    if not walls:
        return None
    if not finite:
        return RankSpread(0, len(walls))
    low, high = min(finite), max(finite, key=lambda one: one[0])
    mean_ms = math.fsum(ms for ms, _ in finite) / len(finite)
    return RankSpread(
        len(finite), len(walls) - len(finite), low[0], mean_ms, high[0], low[1], high[1]
    )


def _in_ms(phase: PhaseSpec) -> Callable[[float], str]:
    return lambda value: formatting.milliseconds(phase.to_ms(value))


def _ends(one: _Shown) -> tuple[str, str]:
    spread, write = one.spread, one.write
    if spread.minimum is None or spread.maximum is None:
        return "", ""
    if spread.count > 1 and spread.minimum == spread.maximum:
        return f"{write(spread.minimum)} by all {spread.count:,}", ""
    if spread.count == 1:
        return f"{write(spread.minimum)} by {one.who(spread.lowest)}", ""
    return (
        f"min {write(spread.minimum)} by {one.who(spread.lowest)}",
        f"max {write(spread.maximum)} by {one.who(spread.highest)}",
    )


def _mean(one: _Shown) -> str:
    spread = one.spread
    if spread.mean is None or spread.minimum == spread.maximum:
        return ""
    return f"mean {one.write(spread.mean)}"


def _beside(one: _Shown) -> str:
    spread = one.spread
    if spread.nonfinite:
        return f"{spread.nonfinite:,} NaN or infinite"
    if one.adds_up and spread.mean is not None and spread.count > 1:
        return f"sum {one.write(spread.mean * spread.count)}"
    return ""


def _line(
    name: str, row: tuple[str, str, str, str], cells: list[int], width: int, gap: int
) -> Line:
    low, high, mean, beside = row
    parts = [Segment(name, "label")]
    used = width_of(name)
    for text, room in ((low, cells[0]), (mean, cells[2]), (high, cells[1])):
        if used + gap + width_of(text) > width:
            break
        style: Style = "value" if text is mean else "plain"
        parts += [Segment(" " * gap), Segment(left(text, room), style)]
        used += gap + room
    if beside and used + gap + width_of(beside) <= width:
        parts.append(Segment(f"{' ' * gap}{beside}", "bad" if "NaN" in beside else "dim"))
    return line(*parts)
