"""A moment of the past, to be shown as the live view showed it. Pure.

The picture of a moment is made by a new ``Series``, out of the entries of the last seconds before
it (so the two-second window is whole), the values that lie further back out of the nearest
earlier block of the history, and an announcement as there would have been one just then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from unilab_metrics.subscribe.values_before import snapshot_of
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded, Update
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.training_clock import TrainingClock
from unilab_sidecar.series import Series

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_MOST_KEPT = 400
_NOBODY = Epoch(b"", 0)


class StartsAndEvents:
    """Of attempts: what a stretch of the last seconds lacks and a picture needs. One owner, no
    locks; the oldest ones go."""

    def __init__(self) -> None:
        self._starts: deque[HistoryRecord] = deque(maxlen=_MOST_KEPT)
        self._events: deque[HistoryRecord] = deque(maxlen=_MOST_KEPT)

    def add(self, records: Iterable[HistoryRecord]) -> None:
        """Takes entries that have come, in any order; those that are here already are passed
        over."""
        for record in records:
            if isinstance(record.entry, AttemptOpened):
                _put(self._starts, record)
            elif isinstance(record.entry, EventUpdate):
                _put(self._events, record)

    def before(self, sequence: int) -> list[HistoryRecord]:
        """Those before the update sequence, in order."""
        known = [one for one in (*self._starts, *self._events) if one.sequence < sequence]
        return sorted(known, key=lambda one: one.sequence)


def _put(kept: deque[HistoryRecord], record: HistoryRecord) -> None:
    if not kept or record.sequence > kept[-1].sequence:
        kept.append(record)


def batches(
    moment: Moment,
    before: Iterable[HistoryRecord],
    head: Head | None,
    clock: TrainingClock | None = None,
) -> list[Batch]:
    """What a series has to take for the picture of the moment. ``before``: starts and events that
    lie before its entries. ``head``: the newest announcement of the run, if there is one. ``clock``:
    when the training began, as far as that is known."""
    made: list[Batch] = []
    if snapshot := snapshot_of(moment.blocks):
        made.append(Batch(snapshot=snapshot))
    if earlier := tuple(before):
        made.append(Batch(earlier))
    then = head_at(moment, earlier, head, clock)
    made.append(Batch(moment.records, then, connected=True))
    return made


def picture_of(
    moment: Moment,
    before: Iterable[HistoryRecord],
    head: Head | None,
    run_dir: str = "",
    clock: TrainingClock | None = None,
) -> Picture:
    """The run as it stood at the moment."""
    series = Series(run_dir)
    for batch in batches(moment, before, head, clock):
        series.add(batch)
    return series.picture()


def head_at(
    moment: Moment,
    before: tuple[HistoryRecord, ...],
    head: Head | None,
    clock: TrainingClock | None = None,
) -> Head:
    """The announcement of that moment; who was at work then, nobody knows any more."""
    updates = [r.entry for r in moment.records if isinstance(r.entry, Update)]
    last = updates[-1] if updates else None
    run, attempt, earlier_s = RunInfo() if head is None else head.run, 1, 0.0
    unix_ns = 0
    for record in (*before, *moment.records):
        entry = record.entry
        if isinstance(entry, AttemptOpened):
            run, attempt, earlier_s = entry.run, entry.attempt, entry.elapsed_s
        if isinstance(entry, AttemptOpened | Update | RunEnded):
            unix_ns = entry.unix_ns
        elif isinstance(entry, EventUpdate):
            unix_ns = max(unix_ns, entry.frame.unix_ns)
    attempt_iteration = None
    if head is not None and head.attempt == attempt:
        # It may know more than was known at the start.
        run, attempt_iteration = head.run, head.attempt_iteration
    end = moment.records[-1].entry if moment.records else None
    return Head(
        _NOBODY if head is None else head.epoch,
        moment.at,
        moment.at,
        attempt if last is None else max(last.attempt, attempt),
        run,
        "" if head is None else head.run_dir,
        (),
        (),
        0 if last is None else last.sealed_mono_ns,
        unix_ns,
        end.status if isinstance(end, RunEnded) else None,
        training_s=None if last is None or clock is None else clock.at(last),
        first_iteration=None if head is None else head.first_iteration,
        earlier_s=earlier_s,
        attempt_iteration=attempt_iteration,
    )
