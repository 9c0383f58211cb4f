"""A moment of the past, to be shown as the live view showed it. Pure.

The picture of a moment is made by a new ``Series``, out of the entries of the last seconds before
it (so the two-second window is whole), the values that lie further back out of the nearest
earlier block of the history, and an announcement as there would have been one just then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from unilab_schema.control import Epoch, Head, Snapshot
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, BinBlock, EventUpdate, RunEnded, Update
from unilab_sidecar.batch import Batch
from unilab_sidecar.moment import Moment
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_MOST_MILESTONES = 400
_NOBODY = Epoch(b"", 0)


class Milestones:
    """The entries that a stretch of the last seconds lacks and a picture needs: starts of attempts,
    and events. One owner, no locks; the oldest ones go."""

    def __init__(self) -> None:
        self._starts: deque[HistoryRecord] = deque(maxlen=_MOST_MILESTONES)
        self._events: deque[HistoryRecord] = deque(maxlen=_MOST_MILESTONES)

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


def batches(moment: Moment, before: Iterable[HistoryRecord], head: Head | None) -> list[Batch]:
    """What a series has to take for the picture of the moment. ``before``: starts and events that
    lie before its entries. ``head``: the newest announcement of the run, if there is one."""
    made: list[Batch] = []
    if snapshot := snapshot_of(moment.blocks):
        made.append(Batch(snapshot=snapshot))
    if earlier := tuple(before):
        made.append(Batch(earlier))
    made.append(Batch(moment.records, head_at(moment, earlier, head), connected=True))
    return made


def picture_of(
    moment: Moment, before: Iterable[HistoryRecord], head: Head | None, run_dir: str = ""
) -> Picture:
    """The run as it stood at the moment."""
    series = Series(run_dir)
    for batch in batches(moment, before, head):
        series.add(batch)
    return series.picture()


def snapshot_of(blocks: tuple[BinBlock, ...]) -> Snapshot | None:
    """The last values of a block of the history, with its last update sequence."""
    if not blocks:
        return None
    tags = tuple(tag for block in blocks for tag in block.tags)
    values = b"".join(block.latest for block in blocks)
    updates = np.full(len(tags), blocks[-1].last, dtype="<i8").tobytes()
    return Snapshot(0, _NOBODY, blocks[-1].last, tags, values, updates)


def head_at(moment: Moment, before: tuple[HistoryRecord, ...], head: Head | None) -> Head:
    """The announcement of that moment; who was at work then, nobody knows any more."""
    updates = [r.entry for r in moment.records if isinstance(r.entry, Update)]
    last = updates[-1] if updates else None
    run, attempt = RunInfo() if head is None else head.run, 1
    unix_ns = 0
    for record in (*before, *moment.records):
        entry = record.entry
        if isinstance(entry, AttemptOpened):
            run, attempt = entry.run, entry.attempt
        if isinstance(entry, AttemptOpened | Update | RunEnded):
            unix_ns = entry.unix_ns
        elif isinstance(entry, EventUpdate):
            unix_ns = max(unix_ns, entry.frame.unix_ns)
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
    )
