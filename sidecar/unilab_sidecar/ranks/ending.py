"""The lines of ranks once no newer answer comes: what the picture's sources say of them, and how far
they are in a run that is over. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unilab_schema.identity import SourceKey
    from unilab_sidecar.ranks.table import RankLine

UNKNOWN = "unknown"
_ALWAYS = frozenset({"gone", "awaited"})


def as_told(
    lines: Iterable[RankLine], of_sources: Iterable[RankLine], *, is_newest: bool
) -> list[RankLine]:
    """The lines as far as ``of_sources``, which the picture knows, say better. ``is_newest``: they
    are later than the lines, so that their word counts on all."""
    told = {one.key: one for one in of_sources}
    found: list[RankLine] = []
    for one in lines:
        source = told.pop(one.key, None)
        if source is not None and is_newest:
            iteration = one.iteration if source.iteration is None else source.iteration
            found.append(replace(one, state=source.state, age_s=source.age_s, iteration=iteration))
        elif source is not None and source.state in _ALWAYS:
            found.append(replace(one, state=source.state))
        else:
            found.append(one)
    return _compared([*found, *told.values()]) if is_newest else found


def _compared(lines: list[RankLine]) -> list[RankLine]:
    """How far each is behind the newest."""
    newest = max((one.iteration for one in lines if one.iteration is not None), default=0)
    return [
        one if one.iteration is None else replace(one, behind=newest - one.iteration)
        for one in lines
    ]


def at_the_end(
    lines: Iterable[RankLine], standing: Collection[SourceKey], at_work: Collection[str], last: int
) -> list[RankLine]:
    """Of a run that is over, at iteration ``last``. ``standing``: who was at work when it was asked
    last. Those have gone further, and nobody says how far, unless there is a single learner.
    ``at_work``: states that nobody has any more; if nobody has said another, none is known."""
    lines = list(lines)
    is_alone = sum(one.is_learner for one in lines) == 1
    found: list[RankLine] = []
    for one in lines:
        iteration = last if is_alone and one.is_learner else one.iteration
        if one.key in standing and iteration != last:
            iteration = None
        behind = None if iteration is None else max(last - iteration, 0)
        changed = replace(one, iteration=iteration, behind=behind)
        if one.state in at_work:
            changed = replace(changed, state=UNKNOWN, age_s=None)
        found.append(changed)
    return found
