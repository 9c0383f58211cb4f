"""What an earlier life of the aggregator left: fold its wal, find the end of its history.

The wal is written and synced first, so history beyond it was lost with a node's power and is cut
off: its sources send it again. Unless the wal was damaged since, which ``evidence`` shows, or bytes
with good ones behind them: then the history stays, and the state takes from it what the wal no
longer tells. Damage of the history is made good from the wal, as far as that goes back and is
exact itself.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.folding.absorbing import absorb, finish_absorbing
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.journaling.evidence import Durable, read_durable
from unilab_metrics.aggregate.journaling.history_end import (
    HISTORY_KINDS,
    HistoryEnd,
    KnownSegment,
    end_of_history,
    first_hole,
    items_since,
)
from unilab_metrics.aggregate.journaling.mending import gone_text, mend
from unilab_metrics.aggregate.journaling.wal_folding import (
    WAL_KINDS,
    Fold,
    fold_wal,
    is_copy,
    since_snapshot,
)
from unilab_metrics.errors import DamagedFileError
from unilab_metrics.storage.block_files import BLOCKS
from unilab_metrics.storage.segments import (
    DAMAGED_SUFFIX,
    SegmentHeader,
    counter_of,
    list_segments,
    parse_segment_name,
    read_segment_header,
    sync_file,
)
from unilab_metrics.wording import counted

_IN_DOUBT = 2
"""Newest segments of each kind of an earlier life that may not be on the disk yet."""

__all__ = ["HISTORY_KINDS", "WAL_KINDS", "Recovered", "is_copy", "recover", "since_snapshot"]


class Recovered(NamedTuple):
    """The state after the last commit, and where the new epoch continues.

    ``missing``: publications of the fold that the history does not hold. ``*_valid_bytes``:
    length of the last segment that counts; what lies beyond is a torn tail, or a history
    entry whose wal record was never written. ``beyond_wal``: history segments of which
    nothing counts. ``replaced``: those of which nothing counts because all of it is in
    ``missing``. ``wal_fault`` and ``history_fault``: in words, what was safe and is damaged; the
    next aggregator keeps, or makes good, what the other half tells. ``gone``: in words, what
    neither does.
    """

    state: AggregatorState
    journal_id: bytes | None
    epoch_counter: int
    damaged_records: int
    wal_segments: list[Path]
    wal_name: str
    wal_valid_bytes: int
    history_segments: list[KnownSegment]
    history_name: str
    history_valid_bytes: int
    last_update: int
    beyond_wal: list[Path]
    missing: list[Publication]
    replaced: list[Path]
    wal_fault: str = ""
    history_fault: str = ""
    gone: str = ""

    @property
    def faults(self) -> list[str]:
        """Of the wal, of the history, and what is gone, as far as there is any."""
        return [text for text in (self.wal_fault, self.history_fault, self.gone) if text]


def recover(bus_dir: Path) -> Recovered:
    """Read the journal in ``bus_dir``. Raises ``UnknownVersionError`` and ``OSError``; changes
    nothing."""
    # Each of a hundred thousand records is an object of its own, none of them in a cycle: looking
    # for some takes as long as all the reading.
    with _no_search_for_cycles():
        return _recover(bus_dir)


@contextmanager
def _no_search_for_cycles() -> Generator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _recover(bus_dir: Path) -> Recovered:
    # First: an aggregator may be at work (for a doctor), and what it calls safe now is in what is
    # read afterwards.
    known = read_durable(bus_dir)
    wal_paths = list_segments(bus_dir, "wal")
    history_paths = list_segments(bus_dir, "history")
    headers = _headers([*wal_paths, *history_paths])
    limits = {h.previous_name: h.previous_valid_bytes for h in headers.values()}
    # Of an epoch that a node's loss has taken whole there may still be blocks.
    known_files = (*wal_paths, *history_paths, *list_segments(bus_dir, BLOCKS))
    counters = (counter_of(path) for path in known_files)
    journal_id = list(headers.values())[-1].epoch.journal if headers else None
    end = end_of_history(history_paths, limits)
    if known is not None and journal_id is None and end.last:
        journal_id = known.journal
    if known is not None and known.journal != journal_id:
        known = None
    ours = [path for path in wal_paths if _is_of(journal_id, headers.get(path))]
    fold = fold_wal(ours, limits, end.last)
    state = fold.state
    fault = _wal_fault(known, fold, end.last)
    if len(ours) < len(wal_paths):
        fault = fault or "a wal of another journal lies there"
    last_known = known.update if known is not None else 0
    kept: list[Path] = []
    replaced: list[Path] = []
    history_fault = ""
    found_again: list[Publication] = []
    if fault or fold.beyond is not None:
        found_again = _complete_state(state, fold, end, known, fault)
    elif end.last >= state.data.next_update:
        # The wal is written first, so this is history whose wal was lost with the node.
        end = end_of_history(history_paths, limits, up_to=state.data.next_update - 1)
        kept = history_paths[len(end.segments) :]
    if end.last < last_known and _is_newest(known, history_paths):
        text = f"the history ends at update {end.last:,}, though {last_known:,} had been safe"
        history_fault = text
    remade = {publication.sequence for publication in fold.missing}
    gone = [n for n in range(end.last + 1, last_known + 1) if history_fault and n not in remade]
    hole = first_hole(end, fold.first_update)
    if hole:
        history_fault = f"the history is damaged at update {hole:,}"
        mended = mend(state, end, hole, fold_wal(ours, limits, hole - 1).missing)
        gone = [*mended.gone, *gone]
        if mended.helps:
            fold = fold._replace(missing=mended.entries)
            end = end_of_history(history_paths, limits, up_to=hole - 1)
            replaced = [p for p in history_paths[len(end.segments) :] if p not in kept]
    return Recovered(
        state,
        journal_id,
        max(counters, default=0),
        fold.damaged + bool(fault and not fold.damaged),
        wal_paths,
        fold.name,
        fold.valid_bytes,
        end.segments,
        end.name,
        end.valid_bytes,
        end.last,
        kept,
        [p for p in (*fold.missing, *found_again) if p.sequence > end.last],
        replaced,
        fault,
        history_fault,
        gone_text(gone),
    )


def set_aside(found: Recovered) -> None:
    """Before the journal goes on: rename what no longer counts, and have the rest on the disk.
    Raises ``OSError``."""
    for suffix, paths in (("beyond-wal", found.beyond_wal), ("replaced", found.replaced)):
        for path in paths:
            path.rename(path.with_name(f"{path.name}.{suffix}"))
    in_doubt = [path for path, _, _ in found.history_segments[-_IN_DOUBT:]]
    for path in (*found.wal_segments[-_IN_DOUBT:], *in_doubt):
        # Nobody knows whether the process that wrote it got round to that. The wal too: a
        # snapshot on the disk must not know more than what else is there can tell.
        sync_file(path)


def retire(path: Path, *, is_damaged: bool) -> None:
    """A wal segment is obsolete; what somebody may still want to look at stays. Raises
    ``OSError``."""
    with suppress(FileNotFoundError):
        if is_damaged:
            path.rename(path.with_name(path.name + DAMAGED_SUFFIX))
        else:
            path.unlink()


def _headers(paths: list[Path]) -> dict[Path, SegmentHeader]:
    """The headers that can be read. A damaged one costs what it says of its predecessor's
    length, which then counts up to its own last good record."""
    found: dict[Path, SegmentHeader] = {}
    for path in paths:
        with suppress(DamagedFileError):
            header = read_segment_header(path)
            if header is not None:
                found[path] = header
    return found


def _is_of(journal_id: bytes | None, header: SegmentHeader | None) -> bool:
    return header is None or header.epoch.journal == journal_id


def _wal_fault(known: Durable | None, fold: Fold, history_last: int) -> str:
    """What of the wal had been on the disk and is not there, in words."""
    if known is None:
        if fold.name or not history_last:
            return ""
        updates = counted(history_last, "update")
        return f"there is no wal, or nothing in it, and the history has {updates}"
    if any(_order(name) > _order(known.wal_name) for name in fold.snapshots):
        return ""  # it holds all that was in the one that is spoken of
    there = fold.lengths.get(known.wal_name, 0)
    if there >= known.wal_bytes:
        return ""
    if not there:
        return f"{known.wal_name} is gone, or nothing of it can be read"
    return f"{known.wal_name} can be read up to byte {there:,}, {known.wal_bytes:,} had been safe"


def _complete_state(
    state: AggregatorState, fold: Fold, end: HistoryEnd, known: Durable | None, fault: str
) -> list[Publication]:
    """What the wal no longer tells, as far as the history does."""
    safe = known.update if known is not None else 0
    accounted = known.accounted_update if known is not None else 0
    if state.data.told_entries:
        accounted = min(accounted, state.data.told_since)
    state.data.told_since = accounted
    for item in items_since(end.segments, fold.first_update):
        if item.sequence <= end.last:
            absorb(state, item.sequence, item.entry, item.tags, accounted)
    # A backend may hold what the history has lost too: its numbers are not given again.
    state.data.next_update = max(state.data.next_update, end.last + 1, safe + 1)
    cursors = known.cursors if known is not None else ()
    text = fault or f"the wal had {counted(fold.damaged, 'record')} that could not be read"
    known_cursors = [(c.incarnation, c.cursor, c.attempt) for c in cursors]
    return finish_absorbing(state, known_cursors, text, fold.beyond)


def _is_newest(known: Durable | None, history_paths: list[Path]) -> bool:
    """Whether the evidence speaks of the newest history segment: later ones begin where an
    aggregator found that the history ended."""
    later = [p for p in history_paths if known and _order(p.name) > _order(known.history_name)]
    return not later


def _order(name: str) -> tuple[int, int]:
    parsed = parse_segment_name(name)
    return (0, 0) if parsed is None else parsed[1:]
