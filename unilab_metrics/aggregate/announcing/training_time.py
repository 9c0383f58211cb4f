"""How long the training has gone on, also between updates. Pure.

An update's elapsed time is rank 0's at its iteration. Ranks that are not synchronised are elsewhere
by then, and go on after rank 0 has finished.
"""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sources import SourceState


def training_s(
    data: RunData, now_mono_ns: int, boot_id: str, frame_age_s: Callable[[int], float | None]
) -> float:
    """Seconds since warm-up, earlier attempts included: until now while a learner lives, else until
    the newest iteration of any. ``now_mono_ns`` and ``boot_id``: of the aggregator; ``frame_age_s``:
    since a source, by its index, has sent its newest frame."""
    learners = [s for s in data.sources if s.is_learner and s.attempt == data.attempt]
    lasted_s = data.elapsed_s - data.earlier_elapsed_s
    for source in learners:
        if source.last_iteration is None:
            continue
        began = began_mono_ns(source, learners)
        newest_s = (source.newest_stamp[0] - began) / 1e9
        lasted_s = max(lasted_s, newest_s)
        if source.status != "live" or source.ended is not None:
            continue
        if source.identity.boot_id == boot_id:
            lasted_s = max(lasted_s, (now_mono_ns - began) / 1e9)
        else:
            # Another clock: the newest frame is what both know.
            lasted_s = max(lasted_s, newest_s + (frame_age_s(source.index) or 0.0))
    return data.earlier_elapsed_s + lasted_s


def began_mono_ns(source: SourceState, learners: list[SourceState]) -> int:
    """On the source's clock, the start of the lowest rank's training if it has the same clock."""
    lowest = min(one.rank for one in learners)
    boot_id = source.identity.boot_id
    first = [one for one in learners if one.rank == lowest and one.identity.boot_id == boot_id]
    return min(
        one.identity.started_mono_ns if one.training_mono_ns is None else one.training_mono_ns
        for one in first or [source]
    )
