"""What a wal still tells behind damage. Pure.

Up to the first damaged record a fold is exact. Behind it, decisions would be taken on what is not
all there, and each update that is not made would shift the numbers of all that follow. So they
are taken from the history, which has what was announced. From the wal come who joined and left,
and the frames: those without a hole before them at once, those behind one when their source has
said what is left of it (``kept_frames``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unilab_metrics.aggregate.folding.attendance import REPLACED
from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    Entry,
    GapFound,
    OpenAttempt,
    RunEnd,
    Seal,
    SourceGone,
    SourceJoined,
    SourceReturned,
)
from unilab_metrics.aggregate.folding.frame_intake import take_records
from unilab_metrics.aggregate.folding.kept_frames import (
    first_of,
    gap_of,
    gap_record,
    last_of,
    newest_sealed,
    take_in_order,
)
from unilab_metrics.storage.records import scan
from unilab_schema.codec import RecordKind
from unilab_schema.identity import LEARNER, Identity

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import SourceState, SourceStatus
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

MAX_KEPT_BYTES = 8 * 1024 * 1024
"""Of all frames behind holes, the newest: a snapshot must hold them."""
_LAST_WORDS = frozenset([RecordKind.DROPS, RecordKind.END])


class _Piece(NamedTuple):
    position: int
    source: int
    records: bytes
    watermark_mono_ns: int = 0


class _Place(msgspec.Struct):
    """One source as the wal has it. ``joined_at``: a position; 0 before the damage."""

    joining: SourceJoined
    status: SourceStatus = "live"
    ending: str = ""
    attempt: int = 1
    joined: int = 1
    joined_at: int = 0
    is_double: bool = False

    @property
    def identity(self) -> Identity:
        return self.joining.identity


class BeyondDamage:
    """Collects entries; :meth:`apply` takes them into the state, completed from the history."""

    def __init__(self, state: AggregatorState) -> None:
        """``state``: folded up to the damage."""
        self._attempt = state.data.attempt
        self._position = 0
        self._places = {
            s.index: _Place(
                SourceJoined(s.index, s.identity), s.status, s.ending, s.attempt, s.joined
            )
            for s in state.data.sources
        }
        self._pieces: list[_Piece] = []
        self._seals: list[tuple[int, int, int]] = []
        self._ended_at = 0
        self._damaged_at = 0

    def damaged(self) -> None:
        """More damage, before what comes next."""
        self._damaged_at = self._position

    def take(self, entry: Entry) -> None:
        """The next one that could be read."""
        self._position += 1
        match entry:
            case SourceJoined():
                self._join(entry)
            case AcceptedBatch():
                piece = _Piece(self._position, entry.source, entry.records, entry.watermark_mono_ns)
                self._pieces.append(piece)
            case GapFound():
                gap = gap_record(entry.first, entry.last, entry.reason)
                self._pieces.append(_Piece(self._position, entry.source, gap))
            case Seal():
                if not entry.supplement:
                    self._seals.append((self._position, self._attempt, entry.iteration))
            case OpenAttempt():
                self._open(entry.attempt)
            case SourceGone() | SourceReturned():
                self._change(entry)
            case RunEnd():
                self._ended_at = self._position
            case _:
                pass

    def apply(self, state: AggregatorState) -> list[Publication]:
        """What of it the history does not have."""
        data = state.data
        published: list[Publication] = []
        if self._attempt > data.attempt:
            published += state.handle(OpenAttempt(self._attempt, 0))
        known_at = self._known_at(state)
        sources = {
            number: self._source(state, place, known_at, published)
            for number, place in self._places.items()
        }
        self._note_told(sources, known_at)
        if data.ended is not None:
            self._take_last_words(state, sources)
        else:
            self._note_passed(state, sources)
            published += self._take_frames(state, sources)
        for number, place in self._places.items():
            source = sources[number]
            if place.status == "finished" and source.status == "live" and not source.beyond:
                source.status = "finished"
                source.settle_last_gap(data.windows.last_sealed)
                source.forget_names()
        return published

    # --- collecting ----------------------------------------------------------------------

    def _join(self, entry: SourceJoined) -> None:
        known = self._places.get(entry.source)
        if known is not None and known.identity.incarnation == entry.identity.incarnation:
            return
        attempt = self._attempt
        place = _Place(entry, attempt=attempt, joined=attempt, joined_at=self._position)
        self._places[entry.source] = place

    def _open(self, attempt: int) -> None:
        self._attempt = max(self._attempt, attempt)
        for place in self._places.values():
            if place.status == "live":
                place.attempt = self._attempt

    def _change(self, entry: SourceGone | SourceReturned) -> None:
        place = self._places.get(entry.source)
        if place is None:
            return
        if isinstance(entry, SourceReturned):
            place.status, place.ending = "live", ""
            if place.is_double:
                place.is_double, place.attempt, place.joined = False, self._attempt, self._attempt
            return
        place.status = "finished" if entry.how == "finished" else "lost"
        place.ending = entry.ending
        if entry.how in REPLACED:
            place.is_double = entry.how == "double"
            place.attempt = place.joined = min(place.joined, self._attempt - 1)

    # --- taking in -----------------------------------------------------------------------

    def _known_at(self, state: AggregatorState) -> int:
        """Up to which position everything that it gave is in the history."""
        data = state.data
        if data.ended is not None and self._ended_at:
            return self._ended_at
        for position, attempt, iteration in reversed(self._seals):
            is_now = attempt == data.attempt and data.windows.is_sealed(iteration)
            if is_now or attempt < data.attempt:
                return position
        return 0

    def _note_told(self, sources: dict[int, SourceState], known_at: int) -> None:
        is_before = self._damaged_at < known_at
        seen: set[int] = set()
        for piece in self._pieces:
            source = sources.get(piece.source)
            if source is None:
                continue
            told = 0
            if piece.position < known_at:
                told = last_of(piece.records)
            elif is_before and piece.source not in seen:
                # What lies between it and the one before was in the damaged records.
                seen.add(piece.source)
                told = first_of(piece.records) - 1
            source.told_through = max(source.told_through, told)

    def _source(
        self, state: AggregatorState, place: _Place, known_at: int, published: list[Publication]
    ) -> SourceState:
        data = state.data
        source = state.source_of(place.identity.incarnation)
        if source is None:
            next_update, warnings = data.next_update, dict(data.warnings)
            joining = msgspec.structs.replace(place.joining, source=len(data.sources))
            told = state.handle(joining)
            source = data.sources[joining.source]
            if place.joined_at < known_at:
                data.next_update, data.warnings = next_update, warnings
            else:
                published += told
        if self._attempt == data.attempt:
            source.attempt, source.joined = place.attempt, place.joined
        if place.status == "lost":
            source.status, source.ending = "lost", place.ending
            source.is_double = source.is_double or place.is_double
        return source

    def _note_passed(self, state: AggregatorState, sources: dict[int, SourceState]) -> None:
        """Stamps of the newest iterations that are in the history: reports up to them are too."""
        data = state.data
        seen: set[int] = set()
        for piece in reversed(self._pieces):
            source = sources.get(piece.source)
            if source is None or source.index in seen or source.attempt != data.attempt:
                continue
            if source.identity.key.role != LEARNER:
                continue
            stamp = newest_sealed(state, source, piece.records)
            if stamp:
                seen.add(source.index)
                known = data.passed_stamps.get(source.rank)
                if known is None or known[0] != source.index or known[1] < stamp:
                    data.passed_stamps[source.rank] = (source.index, stamp)

    def _take_frames(
        self, state: AggregatorState, sources: dict[int, SourceState]
    ) -> list[Publication]:
        published: list[Publication] = []
        kept: list[tuple[SourceState, bytes]] = []
        behind_holes: set[int] = set()
        for piece in self._pieces:
            source = sources.get(piece.source)
            if source is None:
                continue
            if source.index not in behind_holes:
                told, is_behind = take_in_order(state, source, piece.records)
                published += told
                if not is_behind:
                    source.raise_watermark(piece.watermark_mono_ns)
                    continue
                behind_holes.add(source.index)
            kept.append((source, piece.records))
        size = 0
        by_source: dict[int, list[bytes]] = {}
        for source, records in reversed(kept):
            size += len(records)
            if size > MAX_KEPT_BYTES:
                break
            by_source.setdefault(source.index, []).append(records)
        for index, pieces in by_source.items():
            source = state.data.sources[index]
            source.beyond = b"".join(reversed(pieces))
            source.beyond_last = last_of(source.beyond)
        return published

    def _take_last_words(self, state: AggregatorState, sources: dict[int, SourceState]) -> None:
        """The run has ended, so all that was open is in the history: only what sources said of
        themselves is not."""
        for piece in self._pieces:
            source = sources.get(piece.source)
            if source is None:
                continue
            for record in scan(piece.records).records:
                gap = gap_of(record)
                if gap is not None and gap.last > source.cursor:
                    source.lost_frames += gap.last - max(gap.first - 1, source.cursor)
                cursor = max(source.cursor, record.sequence)
                if record.kind in _LAST_WORDS and record.sequence > source.cursor:
                    take_records(state, source, [record])
                source.cursor = cursor
