"""Which learner is far behind the others, where they do not wait for each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from unilab_schema.control import SourceStatus
from unilab_schema.identity import LEARNER
from unilab_sidecar.picture import Laggard

_ITERATIONS = 5
_TIME_S = 2.0
"""Ranks that wait for each other are an iteration apart, and messages take their time."""
_PACES = 10
_PAUSE_S = 5.0
"""Who has sent nothing for so long, or for ten iterations of the fastest, no longer counts."""


def laggard(
    sources: Iterable[SourceStatus], elapsed_s: float | None, before: int = 0
) -> Laggard | None:
    """The one at work that is furthest behind, if it is by more than five iterations that take the
    fastest more than two seconds. ``elapsed_s``: what the training has taken so far; ``before``:
    iterations that it did not do itself, because it goes on from a checkpoint."""
    learners = [
        (one.iteration, one)
        for one in sources
        if one.key.role == LEARNER and one.iteration is not None
    ]
    newest = max((iteration for iteration, _ in learners), default=0)
    if newest <= before or not elapsed_s:
        return None
    pace_s = elapsed_s / (newest - before)
    at_work = [
        (iteration, one.key.rank)
        for iteration, one in learners
        if one.state == "live" and (one.frame_age_s or 0.0) <= _PACES * pace_s + _PAUSE_S
    ]
    if not at_work:
        return None
    iteration, rank = min(at_work)
    behind = newest - iteration
    is_far = behind > _ITERATIONS and behind * pace_s > _TIME_S
    return Laggard(rank, iteration, behind) if is_far else None
