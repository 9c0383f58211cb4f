"""What one viewer keeps of the courses of the tags that somebody looks at. Pure.

Tags are kept only when asked for (a run may have 12,345), at most ``MAX_TAGS`` at once. Their
past is asked of the feed and comes in pieces, their present with the live records:

1. :meth:`ChartStore.keep` names the tags. :attr:`ChartStore.wanted` says what is missing: per
   tag the update sequence behind which its history is not known.
2. The feed answers with :class:`HistoryPiece`: first blocks of the history, then the single
   records behind the last whole block, up to the record that it handed over last. It may take
   many pieces, each of which begins where the one before ended, and a piece may name several
   tags; it counts for those whose history ends at its ``after``. The block in which an attempt
   began is better left out, with its single records as a piece instead: its ranges go backwards.
3. The piece with ``complete`` is handed over before any record behind its ``through``. From
   then on :meth:`ChartStore.add_records` adds the live records, before that it passes over them.

So every update is counted once, whatever the order in which somebody asks: a piece that does
not continue what is here is the answer to an older question, and a record up to ``through`` is
already here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unilab_schema.updates import AttemptOpened, BinBlock, PointsUpdate, Supplement, Update
from unilab_sidecar.charting.bins import MAX_BINS, NO_BINS, Bins, Course, Float64s
from unilab_sidecar.charting.intake import Clock, gap_between, of_blocks, of_point, of_records

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

MAX_TAGS = 16
"""A tag takes half a megabyte at most."""
_WAITING = 64


class Wanted(NamedTuple):
    """The history of ``tag`` behind update sequence ``after`` is missing."""

    tag: str
    after: int


@dataclass(frozen=True, slots=True)
class HistoryPiece:
    """The history of ``tags`` behind update sequence ``after``, up to ``through``.

    ``blocks`` come before ``records``, both in rising order. ``newest``: the newest update
    sequence of the run, for the progress. ``complete``: the live records go on from here.
    """

    tags: tuple[str, ...]
    after: int
    through: int
    blocks: tuple[BinBlock, ...] = ()
    records: tuple[HistoryRecord, ...] = ()
    newest: int = 0
    complete: bool = False


@dataclass(slots=True, eq=False)
class _Track:
    course: Course
    through: int = 0
    newest: int = 0
    complete: bool = False
    is_partial: bool = False
    has_gap: bool = False
    waiting: list[Float64s] = field(default_factory=list[Float64s])

    def settle(self) -> Course:
        if self.waiting:
            if self.has_gap:
                # No line leads over what is not known.
                self.waiting.insert(0, gap_between(self.course.bins().table, self.waiting[0]))
                self.has_gap = False
            self.course.extend(np.concatenate(self.waiting, axis=1))
            self.waiting.clear()
        return self.course


class ChartStore:
    """The kept tags' courses. One owner, no locks; memory is bounded by the number of tags."""

    def __init__(
        self,
        *,
        max_bins: int = MAX_BINS,
        after: int = 0,
        over: Callable[[str, Bins], Bins] | None = None,
        clocks: dict[int, Clock] | None = None,
    ) -> None:
        """``max_bins``: of each tag. ``after``: update sequence behind which the courses begin.
        ``over``: puts what is known better into a tag's bins. ``clocks``: of another store of the
        same run, by attempt: points do not say the time since its start."""
        self.clocks: dict[int, Clock] = {} if clocks is None else clocks
        self._max_bins = max_bins
        self._after = after
        self._over = over
        self._shown: dict[str, Bins] = {}
        self._tracks: dict[str, _Track] = {}
        self._layout: tuple[str, ...] | None = None
        self._columns: list[tuple[int, _Track]] = []

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that are kept."""
        return tuple(self._tracks)

    def keep(self, tags: Iterable[str]) -> None:
        """Keeps these tags, at most ``MAX_TAGS``, and forgets all others."""
        wanted = list(dict.fromkeys(tags))[:MAX_TAGS]
        if wanted != list(self._tracks):
            old = self._tracks
            self._tracks = {tag: old.get(tag) or self._new_track() for tag in wanted}
            self._layout = None
            self._shown.clear()

    def _new_track(self) -> _Track:
        return _Track(Course(self._max_bins, is_part=self._after > 0), self._after)

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """What the feed should be asked for; the same until a piece has come."""
        return tuple(Wanted(t, k.through) for t, k in self._tracks.items() if not k.complete)

    def progress(self, tag: str) -> float:
        """How much of the tag's history is here, from 0 to 1 (all of it)."""
        track = self._tracks.get(tag)
        if track is None:
            return 0.0
        return 1.0 if track.complete else min(track.through / max(track.newest, 1), 0.99)

    def bins(self, tag: str) -> Bins:
        """The tag's course, empty if it is not kept; valid until more is added."""
        if self._over is None:
            return self.joined(tag)
        shown = self._shown.get(tag)
        if shown is None:
            shown = self._shown[tag] = self._over(tag, self.joined(tag))
        return shown

    def joined(self, tag: str) -> Bins:
        """The tag's course without what is known better."""
        track = self._tracks.get(tag)
        return NO_BINS if track is None else track.settle().bins()

    def changed(self) -> None:
        """Something else is known better."""
        self._shown.clear()

    def add_piece(self, piece: HistoryPiece) -> None:
        """Takes a stretch of the past."""
        self._shown.clear()
        tracks = {
            tag: track
            for tag in piece.tags
            if (track := self._tracks.get(tag)) is not None
            and not track.complete
            and track.through == piece.after
        }
        blocks = [block for block in piece.blocks if block.first > piece.after]
        for block in sorted(blocks, key=lambda block: not block.points):
            begin = Clock(block.unix_ns_range[0], block.elapsed_s_range[0])
            if block.attempt not in self.clocks and math.isfinite(begin.elapsed_s):
                self.clocks[block.attempt] = begin
        for tag, table in of_blocks(blocks):
            if tag in tracks:
                tracks[tag].waiting.append(table)
        covered = max([piece.after, *(block.last for block in blocks)])
        for track in tracks.values():
            track.through = covered
        self._take(piece.records, list(tracks.values()))
        for track in tracks.values():
            track.through, track.complete = max(piece.through, covered), piece.complete
            track.newest = max(piece.newest, piece.through)

    def give_up(self, tag: str, through: int) -> None:
        """What is missing of the tag's history up to this update sequence will never come."""
        track = self._tracks.get(tag)
        if track is not None and not track.complete:
            track.settle()
            track.through, track.complete = max(track.through, through), True
            track.is_partial = track.has_gap = True

    def is_partial(self, tag: str) -> bool:
        """Whether a part of the tag's history will never come."""
        track = self._tracks.get(tag)
        return track is not None and track.is_partial

    def interrupt(self) -> None:
        """What comes next does not follow what was here: what lies between is missing."""
        for track in self._tracks.values():
            track.complete = False

    def add_records(self, records: Iterable[HistoryRecord]) -> None:
        """Takes live entries of the history; only updates, supplements and points count."""
        self._shown.clear()
        self._take(records, [track for track in self._tracks.values() if track.complete])

    def _take(self, records: Iterable[HistoryRecord], tracks: Sequence[_Track]) -> None:
        alike: list[HistoryRecord] = []
        for record in records:
            if isinstance(record.entry, Update | Supplement):
                if alike and record.tags is not alike[-1].tags:
                    self._take_alike(alike, tracks)
                    alike = []
                alike.append(record)
            elif isinstance(record.entry, PointsUpdate):
                self._take_alike(alike, tracks)
                alike = []
                self._take_points(record.sequence, record.entry, tracks)
            elif isinstance(record.entry, AttemptOpened):
                opened = record.entry
                self.clocks[opened.attempt] = Clock(opened.unix_ns, opened.elapsed_s)
        self._take_alike(alike, tracks)

    def _take_alike(self, records: Sequence[HistoryRecord], tracks: Sequence[_Track]) -> None:
        """Records of one layout."""
        if not records or not tracks:
            return
        first = records[0].entry
        if isinstance(first, Update) and first.attempt not in self.clocks:
            self.clocks[first.attempt] = Clock(first.unix_ns, first.elapsed_s)
        tags = records[0].tags
        if tags is not self._layout:
            self._layout = tags
            self._columns = [
                (place, self._tracks[tag]) for place, tag in enumerate(tags) if tag in self._tracks
            ]
        columns = [(place, track) for place, track in self._columns if track in tracks]
        for through in {track.through for _place, track in columns}:
            fresh = [record for record in records if record.sequence > through]
            behind = [(place, track) for place, track in columns if track.through == through]
            tables = of_records(fresh, [place for place, _track in behind])
            for (_place, track), table in zip(behind, tables, strict=True):
                track.waiting.append(table)
                if len(track.waiting) >= _WAITING:
                    track.settle()
        for _place, track in columns:
            track.through = max(track.through, records[-1].sequence)

    def _take_points(self, sequence: int, entry: PointsUpdate, tracks: Sequence[_Track]) -> None:
        clock = self.clocks.get(entry.attempt)
        for point in entry.frame.points:
            track = self._tracks.get(point.tag)
            if track in tracks and track is not None and sequence > track.through:
                track.waiting.append(of_point(point, entry.attempt, sequence, clock))
                if len(track.waiting) >= _WAITING:
                    track.settle()
        for track in tracks:
            track.through = max(track.through, sequence)
