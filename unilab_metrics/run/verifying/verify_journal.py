"""Does the journal hold what the sources wrote, and does its wal give its history?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

from unilab_metrics.aggregate.folding.attendance import absent_ranks
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.aggregate.journaling.recovery import WAL_KINDS, recover
from unilab_metrics.aggregate.journaling.refolding import Refold
from unilab_metrics.errors import ExitCode, StorageError, VerificationError
from unilab_metrics.run.bus_settings import read_settings
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.damaged_files import (
    damaged_segments,
    in_files,
    segments_set_aside,
)
from unilab_metrics.run.verifying.verify_sources import SourceFacts, source_facts
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.spool_places import nameless_spools, spool_places, spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.wording import agreeing, counted
from unilab_schema.codec import encode_payload
from unilab_schema.updates import Supplement, Update


class DamagedWalError(StorageError):
    """Bytes of the wal that cannot be read. Facts: ``path``, ``places``."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, bus_dir: Path, places: int, fault: str = "") -> None:
        where = counted(places, "place") + in_files(damaged_segments(bus_dir, "wal", WAL_KINDS))
        super().__init__(bus_dir, fault or f"the wal is damaged in {where}")
        self.places = places


class JournalFacts(NamedTuple):
    """``refolded``: updates that the wal gave once more, of ``updates``; ``first_update``: the
    one at which it begins, its older segments being retired; ``set_aside``: those of them that were
    kept under another name when records in them were damaged. ``learners``: ranks that the
    newest attempt expects, of which ``absent`` have not come. ``late_values``: those that are
    in no update, because their iteration had their tags already or their attempt was over.
    ``notes``: what is odd and costs nothing that is known of."""

    refolded: int
    updates: int
    sources: tuple[SourceFacts, ...]
    first_update: int = 1
    learners: int = 1
    absent: tuple[int, ...] = ()
    late_values: int = 0
    notes: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


def verify_journal(run_dir: Path, *, is_live: bool) -> JournalFacts | None:
    """Compare wal, history and spools; ``None`` for a run without a wal.

    Raises ``VerificationError`` at the first difference, :class:`DamagedWalError`,
    ``UnknownVersionError`` and ``OSError``.
    """
    bus_dir = bus_directory(run_dir)
    refold = Refold(bus_dir)
    if not refold.has_wal and not (bus_dir / DURABLE_FILE).exists():
        _waiting(run_dir, [], [], is_live=is_live)
        return None
    fault = "" if is_live else recover(bus_dir).wal_fault
    if fault:
        raise DamagedWalError(bus_dir, 1, fault)
    refolded = _compare(bus_dir, refold, is_live=is_live)
    if refold.damaged:
        raise DamagedWalError(bus_dir, refold.damaged)
    data = refold.state.data
    notes: list[str] = []
    waiting = _waiting(run_dir, data.sources, notes, is_live=is_live)
    sources = tuple(
        source_facts(source, refold.reasons.get(source.index, {}), waiting.get(source.index))
        for source in data.sources
    )
    if not is_live and data.ended is not None:
        _check_summary(run_dir, data.attempt, data.next_update - 1, sources)
    return JournalFacts(
        refolded,
        data.next_update - 1,
        sources,
        refold.first_update,
        data.expected_learners,
        tuple(absent_ranks(data)),
        data.late_values,
        tuple(notes),
        tuple(segments_set_aside(bus_dir, "wal")),
    )


def _compare(bus_dir: Path, refold: Refold, *, is_live: bool) -> int:
    """How many updates came out the same."""
    with HistoryReader(bus_dir) as reader:
        history = _History(reader)
        refolded = 0
        for publication in refold.publications():
            record = history.at(publication.sequence)
            if refold.damaged:
                # What could not be folded shifts what follows.
                continue
            if record is None:
                if is_live and history.last < publication.sequence:
                    continue  # the wal is written first
                raise VerificationError(
                    f"the wal gives update {publication.sequence}, which the history lacks"
                )
            _check_same(refold, publication, record)
            refolded += 1
        known = refold.state.data.next_update - 1
        beyond = history.at(known + 1)
        if beyond is not None and not is_live and not refold.damaged:
            raise VerificationError(
                f"the history has update {beyond.sequence}, the wal gives none after {known}"
            )
    return refolded


class _History:
    """The history's records by rising sequence."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._records: list[HistoryRecord] = []
        self._next = 0
        self.last = 0

    def at(self, sequence: int) -> HistoryRecord | None:
        """The record of a sequence, which is not below the last one that was asked for."""
        while True:
            while self._next < len(self._records):
                record = self._records[self._next]
                if record.sequence == sequence:
                    return record
                if record.sequence > sequence:
                    return None
                self._next += 1
            self._records, self._next = self._reader.poll(1000), 0
            if not self._records:
                return None
            self.last = self._records[-1].sequence


def _check_same(refold: Refold, publication: Publication, record: HistoryRecord) -> None:
    entry = publication.entry
    same = type(entry) is type(record.entry) and encode_payload(entry) == encode_payload(
        record.entry
    )
    if same and isinstance(entry, Update | Supplement):
        # A layout that has been forgotten meanwhile cannot be compared.
        same = refold.state.layouts.tags(entry.layout) in {None, record.tags}
    if not same:
        what, found = type(entry).__name__, type(record.entry).__name__
        which = f" of iteration {entry.iteration}" if isinstance(entry, Update) else ""
        kind = f"{what}{which}" if what == found else f"{what}{which}, not {found}"
        raise VerificationError(
            f"update {publication.sequence}: the wal gives another {kind} than the history has"
        )


def _waiting(
    run_dir: Path, sources: list[SourceState], notes: list[str], *, is_live: bool
) -> dict[int, int]:
    """Records in spools of this node that the journal lacks, by source. Adds to ``notes``."""
    by_path = {Path(source.identity.spool_path): source for source in sources}
    places = spool_places(read_settings(run_dir), [source.identity for source in sources])
    found: dict[int, int] = {}
    for directory, reason in ({} if is_live else nameless_spools(places)).items():
        raise VerificationError(f"{directory} holds {reason}")
    for directory in spools_in(places):
        source = by_path.get(directory)
        last = SpoolReader(directory).last()
        waiting = max(last - (source.cursor if source is not None else 0), 0)
        if source is not None:
            found[source.index] = waiting
            if 0 < last < source.cursor and not is_live:
                notes.append(_shortened(directory, last, source))
        if waiting and not is_live and settled_pid(directory / LEASE_NAME) is None:
            raise VerificationError(
                f"{counted(waiting, 'record')} {agreeing(waiting, 'waits', 'wait')} in "
                f"{directory}; {agreeing(waiting, 'it is', 'they are')} taken in with "
                f"`unilab-metrics recover {run_dir}`"
            )
    return found


def _shortened(directory: Path, last: int, source: SourceState) -> str:
    return (
        f"{directory} ends at record {last:,} of the {source.identity.key.place}, the journal has "
        f"{source.cursor:,}: somebody has cut it off, and what followed is not known"
    )


def _check_summary(
    run_dir: Path, attempt: int, updates: int, sources: tuple[SourceFacts, ...]
) -> None:
    """What the summary says of losses, if it speaks of all of this journal."""
    bus = cast("dict[str, Any]", (read_summary(run_dir) or {}).get("bus") or {})
    if (bus.get("attempt"), bus.get("updates")) != (attempt, updates):
        return
    told = {
        (row.get("role"), row.get("rank"), row.get("instance"), row.get("pid")): row
        for row in cast("list[dict[str, Any]]", bus.get("sources") or [])
    }
    for source in sources:
        row = told.get((source.key.role, source.key.rank, source.key.instance, source.pid))
        if row is not None and row.get("lost_frames") != source.lost:
            told_lost = row.get("lost_frames")
            frames = counted(told_lost, "frame") if isinstance(told_lost, int) else "other frames"
            raise VerificationError(
                f"the summary says that {frames} of the {source.key.place} "
                f"{agreeing(1 if told_lost == 1 else 2, 'is', 'are')} lost, the journal says "
                f"{source.lost:,}"
            )
