"""Least, mean and most over the ranks, and who holds them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.known_names import STEPS_PER_S, tag_of
from unilab_schema.phases import ITERATION_WALL, PhaseSpec, all_learner_slices
from unilab_schema.rank_values import RankSpread
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    Style,
    clean,
    left,
    line,
    right,
    width_of,
)
from unilab_sidecar.progress.source_states import ENDED
from unilab_sidecar.ranks.columns import tag_title
from unilab_sidecar.ranks.table import GRADIENT_SYNC_MS, STANDING, RankTable, at_work
from unilab_sidecar.values.means import are_one, mean

_NAME_CELLS = 32
_LEARNER_PHASES = frozenset(phase.tag for phase in all_learner_slices())


class _Shown(NamedTuple):
    """``short``: the name where there is little room. ``who``: names a holder. ``adds_up``: their
    sum means something."""

    name: str
    short: str
    spread: RankSpread
    write: Callable[[float], str]
    who: Callable[[SourceKey | None], str]
    adds_up: bool = False


class _End(NamedTuple):
    """``min``, ``119.38``, ``by rank 4``."""

    word: str = ""
    number: str = ""
    by: str = ""


_NOTHING = _End()


def spreads(
    table: RankTable,
    tags: Sequence[str],
    width: int,
    rows: int,
    happened: Collection[str] = (),
) -> Block:
    """The iteration wall, steps per second, the tags and the phases, a line each, at most
    ``rows``. ``happened``: phases that have their row in the overview; one of the learner's profile
    that is nothing everywhere has none here either if it is not among them."""
    shown: list[_Shown] = []
    if (wall := _wall(table)) is not None:
        names = "Iter Wall, ms", "Wall, ms"
        shown.append(_Shown(*names, wall, formatting.milliseconds, who))
    pace = tag_of("steps_per_s", table.spreads) or STEPS_PER_S
    for tag in (pace, GRADIENT_SYNC_MS, *tags):
        spread = table.spreads.get(tag)
        if spread is not None and (spread.count or spread.nonfinite):
            holder = _holders(table, tag)
            if tag == pace:
                names, write = ("Steps/s", "Steps/s"), formatting.rate
                adds_up = pace == STEPS_PER_S
                shown.append(_Shown(*names, spread, write, holder, adds_up=adds_up))
            elif tag == GRADIENT_SYNC_MS:
                names, write = ("DP Sync, ms", "Sync, ms"), formatting.milliseconds
                shown.append(_Shown(*names, spread, write, holder))
            else:
                names = clean(tag), tag_title(tag)
                shown.append(_Shown(*names, spread, formatting.value, holder))
    for phase in table.phases:
        spread = table.spreads.get(phase.tag)
        if phase.tag in tags or (phase.tag not in happened and _is_absent(phase, spread)):
            continue
        if spread is not None and spread.count:
            names = f"{phase.label}, ms", f"{phase.short_label}, ms"
            shown.append(_Shown(*names, spread, _in_ms(phase), _holders(table, phase.tag)))
    shown = shown[: max(rows, 0)]
    if not shown:
        return []
    is_alone = len({one.key.rank for one in table.lines}) == 1
    ends = list(zip(*(_ends(one, is_alone=is_alone) for one in shown), strict=True))
    columns = [_column(column, are_aligned=True) for column in ends]
    if _short_cells(shown) > width - sum(width_of(column[0]) for column in columns):
        columns = [_column(column, are_aligned=False) for column in ends]
    names, gap = _fitting(shown, width - sum(width_of(column[0]) for column in columns))
    return [
        _line(name, row, _beside(one), width, gap)
        for name, row, one in zip(names, zip(*columns, strict=True), shown, strict=True)
    ]


def _column(ends: Sequence[_End], *, are_aligned: bool) -> list[str]:
    """One column's texts in as many cells each. ``are_aligned``: the points of the numbers below
    each other, for which there must be room; else their ends."""
    words = max(width_of(end.word) for end in ends)
    if not are_aligned:
        cells = max(width_of(end.number) for end in ends)
        texts = [f"{left(end.word, words)} {right(end.number, cells)} {end.by}" for end in ends]
    else:
        before = max(width_of(end.number.partition(".")[0]) for end in ends)
        after = max(width_of(end.number) - width_of(end.number.partition(".")[0]) for end in ends)
        texts = [
            f"{left(end.word, words)} "
            f"{right(end.number.partition('.')[0], before)}"
            f"{left(''.join(end.number.partition('.')[1:]), after)} {end.by}"
            for end in ends
        ]
    cells = max(width_of(text.rstrip(" ")) for text in texts)
    return [left(text.rstrip(" "), cells) for text in texts]


def _short_cells(shown: list[_Shown]) -> int:
    return min(max(width_of(one.short) for one in shown), 24) + 3


def _fitting(shown: list[_Shown], room: int) -> tuple[list[str], int]:
    """The names in the cells that the values leave, and how far apart all stand: who holds what
    is more than the first part of a name."""
    names, short = [one.name for one in shown], [one.short for one in shown]
    for tried, gap, most in ((names, 2, _NAME_CELLS), (short, 2, 24), (short, 1, 24)):
        cells = min(max(map(width_of, tried)), most)
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


def _is_absent(phase: PhaseSpec, spread: RankSpread | None) -> bool:
    """Whether a phase that every learner reports has happened nowhere."""
    if spread is None or spread.nonfinite or phase.tag not in _LEARNER_PHASES:
        return False
    return spread.minimum == spread.maximum == 0.0


def _wall(table: RankTable) -> RankSpread | None:
    """Of what the table shows as the wall, which may be what the phases account for."""
    told = table.spreads.get(ITERATION_WALL)
    if table.left_out[1] and told is not None:
        return _times_1000(told)
    states = STANDING if any(one.is_learner for one in at_work(table)) else ENDED
    walls = [
        (one.wall_ms, one.key)
        for one in table.lines
        if one.wall_ms is not None and one.state in states
    ]
    return _spread_of(walls) if walls else None


def _spread_of(told: Sequence[tuple[float, SourceKey]]) -> RankSpread:
    """Over sources, of which each has a value; as the aggregator makes it."""
    finite = [(value, key) for value, key in told if math.isfinite(value)]
    if not finite:
        return RankSpread(0, len(told))
    low = min(finite, key=lambda one: one[0])
    high = max(finite, key=lambda one: one[0])
    mean_of = mean([value for value, _ in finite])
    others = len(told) - len(finite)
    return RankSpread(len(finite), others, low[0], mean_of, high[0], low[1], high[1])


def _times_1000(spread: RankSpread) -> RankSpread:
    low, middle, high = (
        None if value is None else value * 1e3
        for value in (spread.minimum, spread.mean, spread.maximum)
    )
    return RankSpread(
        spread.count, spread.nonfinite, low, middle, high, spread.lowest, spread.highest
    )


def _in_ms(phase: PhaseSpec) -> Callable[[float], str]:
    return lambda value: formatting.milliseconds(phase.to_ms(value))


def _ends(one: _Shown, *, is_alone: bool) -> tuple[_End, _End, _End]:
    """Least, mean and most. ``is_alone``: there is but one rank, and whose a value is needs no
    word."""
    spread, write = one.spread, one.write
    if spread.minimum is None or spread.maximum is None:
        return _NOTHING, _NOTHING, _NOTHING
    # Means of the same values in another order differ by rounding.
    if are_one(spread.minimum, spread.maximum):
        by = f"by all {spread.count:,}" if spread.count > 1 else f"by {one.who(spread.lowest)}"
        by = "" if is_alone and spread.count == 1 else by
        return _End("", write(spread.minimum), by), _NOTHING, _NOTHING
    return (
        _End("min", write(spread.minimum), f"by {one.who(spread.lowest)}"),
        _NOTHING if spread.mean is None else _End("mean", write(spread.mean), ""),
        _End("max", write(spread.maximum), f"by {one.who(spread.highest)}"),
    )


def _beside(one: _Shown) -> str:
    spread = one.spread
    if spread.nonfinite:
        return f"{spread.nonfinite:,} NaN or infinite"
    if one.adds_up and spread.mean is not None and spread.count > 1:
        return f"sum {one.write(spread.mean * spread.count)}"
    return ""


def _line(name: str, row: Sequence[str], beside: str, width: int, gap: int) -> Line:
    parts = [Segment(name, "label")]
    used = width_of(name)
    for place, text in enumerate(row):
        if used + gap + width_of(text.rstrip(" ")) > width:
            break
        style: Style = "value" if place == 1 else "plain"
        parts += [Segment(" " * gap), Segment(text, style)]
        used += gap + width_of(text)
    if beside and used + gap + width_of(beside) <= width:
        parts.append(Segment(f"{' ' * gap}{beside}", "bad" if "NaN" in beside else "dim"))
    while parts[-1].text.rstrip(" ") != parts[-1].text:
        parts[-1] = Segment(parts[-1].text.rstrip(" "), parts[-1].style)
        parts = parts if parts[-1].text else parts[:-1]
    return line(*parts)
