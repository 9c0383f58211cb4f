"""The courses that the charts draw, out of what the feed hands over. Pure.

Of a run that is followed from its beginning, the usual tags are kept with it; the past of others,
and of a run that somebody joined later, is asked of the feed as soon as the charts are looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.updates import PointsUpdate
from unilab_sidecar.charting.bins import Bins, Field
from unilab_sidecar.charting.detail import EVER, ChartDetail, Window
from unilab_sidecar.charting.store import ChartStore, HistoryPiece
from unilab_sidecar.feeding.earlier_events import tags_of
from unilab_sidecar.feeding.past_questions import CourseQuestion, DetailQuestion

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

MOST_POINT_TAGS = 16_384
"""Further ones are not offered: nothing else bounds the names that points may have."""
MOST_HELD = 50_000
MOST_HELD_BYTES = 64 * 1024 * 1024
"""Records that wait while the display is paused; more than that, and the charts go on."""


class ChartKeeping:
    """One owner, no locks."""

    def __init__(
        self, usual: Callable[[tuple[str, ...]], tuple[str, ...]], *, is_over: bool = False
    ) -> None:
        """``usual``: those of a run's tags that are kept unasked. ``is_over``: nothing comes but
        what is asked for."""
        self._is_over = is_over
        self._all, self._detail = ChartDetail(), ChartDetail()
        self._is_zoomed = False
        self.store = ChartStore(over=self._over)
        self._usual = usual
        self._kept_unasked: tuple[str, ...] = ()
        self._chosen: tuple[str, ...] = ()
        self._layout: tuple[str, ...] | None = None
        self._first: int | None = None
        self._seen = 0
        self._through = 0
        self._held: list[HistoryRecord] = []
        self._held_bytes = 0
        self._has_hole = False
        self._is_paused = False
        self._reach = 0
        self._asked: CourseQuestion | None = None
        self._is_unheard = False
        self.point_tags: set[str] = set()
        """Those that have come as points, which no update carries."""

    @property
    def first(self) -> int | None:
        """The first of the entries that have come without a hole, ``None`` before there is one."""
        return self._first

    @property
    def is_loading(self) -> bool:
        """Whether a part of the past is on its way."""
        is_finer_asked = self._all.is_loading or self._detail.is_loading
        return (self._asked is not None or is_finer_asked) and not self._is_unheard

    @property
    def progress(self) -> float:
        """How much of what is drawn finer is here, from 0 to 1: all, or there is nobody to tell
        more at the moment."""
        return 1.0 if self._is_unheard else min(self._all.progress, self._detail.progress)

    def _over(self, tag: str, bins: Bins) -> Bins:
        bins = self._all.over(tag, bins)
        # In a picture of all, one stretch that is finer than the rest would look like a noisy one.
        return self._detail.over(tag, bins) if self._is_zoomed else bins

    def choose(self, tags: tuple[str, ...]) -> None:
        """These are drawn."""
        if tags != self._chosen:
            self._chosen = tags
            self._keep()

    def question(self) -> CourseQuestion | None:
        """What is to be asked of the feed now; ``None`` while that is on its way, or all is
        here. Those that miss the most come first."""
        if self._asked is not None:
            wanted = {one.tag for one in self.store.wanted}
            if wanted.issuperset(self._asked.tags):
                return None
        missing = self.store.wanted
        after = min((one.after for one in missing), default=0)
        tags = tuple(one.tag for one in missing if one.after == after)
        self._asked = CourseQuestion(tags, after) if tags else None
        return self._asked

    def answer(self, question: CourseQuestion, reply: HistoryPiece | NoAnswer) -> None:
        """A piece of the past. Where nobody ever tells it, the courses begin now."""
        if question is not self._asked or self._has_to_wait(reply):
            return
        is_told = isinstance(reply, HistoryPiece)
        if is_told:
            self.store.add_piece(reply)
        else:
            for tag, after in self.store.wanted:
                if tag in question.tags:
                    self.store.give_up(tag, max(self._through, after))
        if not is_told or reply.complete:
            self._asked = None

    def _has_to_wait(self, reply: HistoryPiece | NoAnswer) -> bool:
        """Whether it is not there yet: the feed goes on asking for it."""
        self._is_unheard = isinstance(reply, NoAnswer) and reply.may_come
        return self._is_unheard

    def detail_question(self, window: Window | None) -> DetailQuestion | None:
        """What is to be asked of the feed for the window that is looked at; as :meth:`question`."""
        if window is None:
            return None
        if self._is_zoomed == window.is_whole:
            self._is_zoomed = not window.is_whole
            self.store.changed()
        if self._asked is not None:
            return None
        own, other = self._all, self._detail
        if self._is_zoomed:
            own, other = other, own
        # A display that stands still does not go on with what comes.
        is_still = self._is_over or (window.is_whole and self._is_paused)
        question = own.question(self.store, window, EVER if is_still else self._seen)
        if question is not None:
            # The feed keeps one of them.
            other.give_way()
        return question

    def detail_answer(self, question: DetailQuestion, reply: HistoryPiece | NoAnswer) -> None:
        """A piece of the window."""
        if self._has_to_wait(reply):
            return
        for one in (self._all, self._detail):
            one.answer(question, reply)
        self.store.changed()

    def restart(self) -> None:
        """What comes now comes from another place of the history, or of another one."""
        self._forget_finer()
        self._first, self._through, self._asked = None, 0, None
        self._has_hole = self._is_unheard = False
        self._reach = 0
        self._held.clear()
        self._held_bytes = 0
        self.store.keep(())
        self._kept_unasked, self._layout = (), None
        self._keep()

    def add(self, records: Iterable[HistoryRecord], *, is_paused: bool) -> None:
        """Takes live records; they are drawn once the display is live, or shows a moment after
        them."""
        self._is_paused = is_paused
        if not is_paused:
            self._reach = 0
        for record in records:
            if self._first is None:
                self._first = record.sequence
            elif record.sequence > self._seen + 1:
                self._first, self._has_hole = record.sequence, True
            self._seen = record.sequence
            if record.tags and record.tags is not self._layout:
                self._layout = record.tags
                self._find_usual(record.tags)
            if isinstance(record.entry, PointsUpdate) and len(self.point_tags) < MOST_POINT_TAGS:
                self.point_tags |= tags_of((record,))
            if self._has_hole:
                # It is asked for with what lies before it.
                continue
            self._held.append(record)
            self._held_bytes += _bytes_of(record)
        self._draw()

    def reach(self, sequence: int) -> None:
        """The display stands still at the moment of this entry: the charts go on as far, now or once
        it has come, and do not go back."""
        if self._is_paused and sequence > self._reach:
            self._reach = sequence
            self._draw()

    @property
    def is_behind(self) -> bool:
        """Whether more has come than is drawn, because the display stands still."""
        if not self._held:
            return self._has_hole
        courses = [self.store.bins(tag)[Field.SEQUENCE_TO] for tag in self._chosen]
        # What was asked for after that reaches further than what was kept.
        return self._held[-1].sequence > max((one.max(initial=0) for one in courses), default=0)

    def _draw(self) -> None:
        """What waits, as far as it may be drawn."""
        is_full = len(self._held) > MOST_HELD or self._held_bytes > MOST_HELD_BYTES
        count = len(self._held)
        if self._is_paused and not is_full:
            count = bisect_right(self._held, self._reach, key=lambda record: record.sequence)
        if count:
            drawn = self._held[:count]
            for one in (self._all, self._detail):
                one.add_records(drawn)
            self.store.add_records(drawn)
            self._through = drawn[-1].sequence
            del self._held[:count]
            self._held_bytes -= sum(map(_bytes_of, drawn))
        is_due = not self._is_paused or (self._first is not None and self._reach >= self._first)
        if self._has_hole and is_due:
            self._has_hole = False
            self._forget_finer()
            self.store.interrupt()

    def _forget_finer(self) -> None:
        self._all.forget()
        self._detail.forget()

    def _find_usual(self, tags: tuple[str, ...]) -> None:
        new = tuple(tag for tag in self._usual(tags) if tag not in self._kept_unasked)
        if not new:
            return
        known = self.store.tags
        self._kept_unasked = (*self._kept_unasked, *new)
        self._keep()
        if self._first == 1:
            # Nothing of them was there before.
            fresh = tuple(tag for tag in new if tag not in known)
            self.store.add_piece(HistoryPiece(fresh, 0, self._through, complete=True))

    def _keep(self) -> None:
        self.store.keep([*self._chosen, *self._kept_unasked])


def _bytes_of(record: HistoryRecord) -> int:
    # Of one of 12,345 tags the values are a hundred kilobytes.
    return 8 * len(record.tags)
