"""Questions about a run's past: the courses of tags, and a moment of it. Pure.

Each is answered in steps, and every step is a question that fits one message: the feed goes on
with what a question says of its own continuation, so live updates are never held up for long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.requests import Blocks
from unilab_schema.updates import BLOCK_ENTRIES, BinBlock, Update
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.feeding.earlier_events import StretchAnswering
from unilab_sidecar.feeding.moment import Moment, is_enough

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_STRETCH = 1000
_DETAIL = 4000
_SHORT = 16 * BLOCK_ENTRIES
"""Of a run of so few entries, blocks would make a picture of steps."""
_FIRST_BACK = 128
_MOST_BACK = 16_384
"""Entries before a moment; a window with more of them is shown in part."""


class PastAnswering(StretchAnswering, Protocol):
    """What these questions need of ``unilab_metrics.subscribe.Subscriber``."""

    @property
    def cursor(self) -> int | None:
        """Update sequence up to which entries were handed over."""
        ...

    def newest(self) -> int:
        """The newest update sequence of the run that is known."""
        ...

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        """A part of the history in brief."""
        ...


@dataclass(frozen=True, slots=True)
class CourseQuestion:
    """The history of ``tags`` behind the update sequence ``after``. ``attempt``: of the last entry
    that is known. ``records_through``: up to there single entries are wanted, not blocks."""

    tags: tuple[str, ...]
    after: int = 0
    attempt: int = 0
    records_through: int = 0

    def put(self, source: PastAnswering) -> HistoryPiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        handed_over = source.cursor or 0
        newest = max(handed_over, source.newest())
        wanted_through = self.records_through or (newest if newest <= _SHORT else 0)
        if wanted_through > self.after:
            limit = min(wanted_through - self.after, _STRETCH)
            found = source.stretch(self.after, limit, self.tags)
            if found is None or isinstance(found, NoAnswer):
                return found
            through = found.last
            if through == self.after:
                # Nobody can read what lies there, or there is nothing yet.
                through = min(wanted_through, max(handed_over, self.after))
            done = through >= handed_over
            return HistoryPiece(
                self.tags, self.after, through, (), found.records, newest, complete=done
            )
        told = source.bins(self.tags, self.after)
        if told is None or isinstance(told, NoAnswer):
            return told
        return self._piece(told, newest, handed_over)

    def _piece(self, told: Blocks, newest: int, handed_over: int) -> HistoryPiece:
        last = told.last or max([self.after, *(block.last for block in told.blocks)])
        first = told.first or self.after + 1
        blocks: list[BinBlock] = []
        through = self.after
        if first == self.after + 1:
            attempt = self.attempt or 1
            through = max(last, self.after)
            for block in told.blocks:
                if block.attempt != attempt:
                    # In it an attempt began: its entries are told one by one.
                    through = block.first - 1
                    break
                blocks.append(block)
        return HistoryPiece(
            self.tags, self.after, through, tuple(blocks), (), newest,
            complete=through >= handed_over,
        )  # fmt: skip

    def following(self, piece: HistoryPiece) -> CourseQuestion | None:
        """What is asked next, ``None`` when everything is told."""
        if piece.complete:
            return None
        attempt = self.attempt
        if piece.blocks:
            attempt = piece.blocks[-1].attempt
        for record in piece.records:
            attempt = getattr(record.entry, "attempt", attempt)
        if piece.through < self.records_through:
            return CourseQuestion(self.tags, piece.through, attempt, self.records_through)
        if self.records_through or piece.through > self.after:
            return CourseQuestion(self.tags, piece.through, attempt)
        end = piece.through - piece.through % BLOCK_ENTRIES + BLOCK_ENTRIES
        return CourseQuestion(self.tags, piece.through, attempt, end)


@dataclass(frozen=True, slots=True)
class DetailQuestion:
    """The entries of ``tags`` behind the update sequence ``after`` one by one; up to ``through``,
    or as far as they have been handed over if that is 0."""

    tags: tuple[str, ...]
    after: int
    through: int = 0

    def put(self, source: PastAnswering) -> HistoryPiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        wanted_through = self.through or source.cursor or 0
        left = wanted_through - self.after
        found = source.stretch(self.after, min(left, _DETAIL), self.tags) if left > 0 else None
        if found is None and left > 0:
            return None
        if isinstance(found, NoAnswer):
            return found
        through = self.after if found is None else found.last
        if through == self.after:
            # Nobody can read what lies there, or there is nothing yet.
            through = max(wanted_through, self.after)
        records = () if found is None else found.records
        done = through >= wanted_through
        return HistoryPiece(
            self.tags, self.after, through, (), records, source.newest(), complete=done
        )

    def following(self, piece: HistoryPiece) -> DetailQuestion | None:
        """What is asked next, ``None`` when everything is told."""
        return None if piece.complete else replace(self, after=piece.through)


def _is_update(record: HistoryRecord) -> bool:
    return isinstance(record.entry, Update)


@dataclass(frozen=True, slots=True)
class MomentQuestion:
    """The run when it had come to the update sequence ``at`` (beyond its end: its newest; before
    its first iteration: that one, because there is nothing to see before it). The rest is how far
    the answer is: ``begin`` and ``records``, entries behind ``begin``."""

    at: int
    back: int = 0
    reached: int = 0
    records: tuple[HistoryRecord, ...] = ()

    def put(self, source: PastAnswering) -> Moment | MomentQuestion | NoAnswer | None:
        """A question in return is the next step."""
        newest = max(source.cursor or 0, source.newest())
        at = max(min(self.at, newest), 1)
        back = self.back or _FIRST_BACK
        begin = max(at - back, 0)
        after = max(self.reached, begin)
        if after < at:
            found = source.stretch(after, min(at - after, _STRETCH))
            if found is None or isinstance(found, NoAnswer):
                return found
            fresh = tuple(one for one in found.records if one.sequence <= at)
            reached = min(found.last, at) if found.last > after else at
            return replace(self, at=at, back=back, reached=reached, records=(*self.records, *fresh))
        if begin > 0 and back < _MOST_BACK and not is_enough(self.records):
            return MomentQuestion(at, back * 4)
        if begin == 0 and at < newest and not any(_is_update(one) for one in self.records):
            found = source.stretch(at, min(newest - at, _STRETCH))
            if found is None or isinstance(found, NoAnswer):
                return found
            first = next((one.sequence for one in found.records if _is_update(one)), found.last)
            fresh = tuple(one for one in found.records if one.sequence <= first)
            if first > at:
                kept = (*self.records, *fresh)
                return replace(self, at=first, back=first, reached=first, records=kept)
        block_first = begin // BLOCK_ENTRIES * BLOCK_ENTRIES + 1 - BLOCK_ENTRIES
        if block_first < 1:
            return self._moment(at, (), newest)
        told = source.bins((), block_first - 1)
        if told is None or (isinstance(told, NoAnswer) and told.may_come):
            return told
        blocks = () if isinstance(told, NoAnswer) else told.blocks
        return self._moment(at, tuple(b for b in blocks if b.first == block_first), newest)

    def _moment(self, at: int, blocks: tuple[BinBlock, ...], newest: int) -> Moment:
        return Moment(at, self.records, blocks, newest)
