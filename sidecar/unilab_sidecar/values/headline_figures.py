"""Figures that stand alone on the screen, by what they mean. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from unilab_schema.control import Head, SourceStatus
from unilab_schema.identity import LEARNER, RunInfo
from unilab_schema.known_names import Meaning, tag_of
from unilab_schema.updates import RunEnded, Update
from unilab_sidecar.alerting.lagging import laggard
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.groups.metric_group import Readings
from unilab_sidecar.picture import Laggard, Reading, Reference
from unilab_sidecar.progress.counting import Counting


def meant(readings: Readings, meaning: Meaning, own: str = "") -> Reading | None:
    """The reading of the tag that has this meaning; ``own``: the one that the run says has it."""
    tag = tag_of(meaning, readings, own)
    return None if tag is None else readings.get(tag)


def highest(*values: float | None) -> float | None:
    """Of those that are known."""
    return max((value for value in values if value is not None), default=None)


def all_dropped(told: Summary | None, head: Head | None) -> int | None:
    """Frames dropped and lost by all sources; ``told``: what the run says of itself at its end."""
    if told is not None:
        return told.dropped
    if head is None or not head.sources:
        return None
    return sum(sum(source.drops.values()) + source.lost_frames for source in head.sources)


class TrainingPace(NamedTuple):
    """How far the training is in time, and who is far behind. ``elapsed_s``: as of the announcement
    if it tells, else rank 0's at the last update, ``is_of_rank_0``. ``done``: iterations that every
    rank has completed. ``eta_s``: seconds that it still takes at its pace so far; all of it ``None``
    where nobody knows."""

    elapsed_s: float | None = None
    eta_s: float | None = None
    laggard: Laggard | None = None
    is_of_rank_0: bool = False
    done: int | None = None


def pace_of(
    last: Update | None,
    run: RunInfo,
    head: Head | None,
    sources: Iterable[SourceStatus],
    counting: Counting,
    summed_s: float | None = None,
) -> TrainingPace:
    """As of the ``last`` update and the announcement. ``sources``: as they are shown.
    ``summed_s``: what the run says of itself at its end."""
    if last is None:
        return TrainingPace()
    told_s = _training_s(last, head)
    elapsed_s = max(last.elapsed_s, told_s or 0.0, summed_s or 0.0)
    own = counting.own(last.iteration, run, head)
    taken_s = elapsed_s - _earlier_s(last, head)
    behind = laggard(sources, taken_s, 0 if own is None else last.iteration - own)
    is_of_rank_0 = told_s is None and summed_s is None and last.ranks_expected > 1
    reached = last.iteration if behind is None else min(last.iteration, behind.iteration)
    done = counting.done(reached, run, head)
    eta_s = _eta_s(last, run, head, behind, counting)
    return TrainingPace(elapsed_s, eta_s, behind, is_of_rank_0, done)


def _eta_s(
    last: Update, run: RunInfo, head: Head | None, behind: Laggard | None, counting: Counting
) -> float | None:
    """``behind``: whom the run waits for at its end."""
    if run.max_iterations is None:
        return None
    taken_s, iteration = last.elapsed_s, last.iteration
    told_s = _training_s(last, head)
    if head is not None and told_s is not None:
        # Not what an iteration that goes on has taken so far.
        since_s = (head.mono_ns - last.sealed_mono_ns) / 1e9
        if behind is not None:
            iteration = behind.iteration
            since_s = _frame_age_s(head, behind)
        taken_s = max(told_s - max(since_s, 0.0), 0.0)
    done, own = counting.done(iteration, run, head), counting.own(iteration, run, head)
    if own is None or own <= 0:
        return None
    taken_s = max(taken_s - _earlier_s(last, head), 0.0)
    return taken_s / own * max(run.max_iterations - done, 0)


def _earlier_s(last: Update, head: Head | None) -> float:
    """Of the attempts before, whose iterations are done again or were done by them."""
    return head.earlier_s if head is not None and head.attempt == last.attempt else 0.0


def _training_s(last: Update, head: Head | None) -> float | None:
    return head.training_s if head is not None and head.attempt == last.attempt else None


def _frame_age_s(head: Head, behind: Laggard) -> float:
    ages = (
        one.frame_age_s
        for one in head.sources
        if one.key.role == LEARNER and one.key.rank == behind.rank
    )
    return next((age for age in ages if age is not None), 0.0)


def reference_of(
    head: Head | None,
    head_age_s: float,
    ended: RunEnded | None,
    newest_unix_ns: int | None,
    *,
    is_over: bool,
) -> tuple[Reference, int | None]:
    """What the ages of events are measured from: now, or where there is no now, the end.
    ``newest_unix_ns``: of the last entry of the history."""
    if is_over and ended is not None:
        return "end", ended.unix_ns
    if is_over:
        return "end", head.unix_ns if head else newest_unix_ns
    if head is not None:
        since_ns = head_age_s * 1e9
        return "now", head.unix_ns + (round(since_ns) if math.isfinite(since_ns) else 0)
    return "last entry", newest_unix_ns
