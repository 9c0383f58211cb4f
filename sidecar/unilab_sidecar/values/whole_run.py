"""The rest of a run that a viewer has joined at its end, for what is said of all of it: peak, trend
and course of the reward, courses, alerts. Pure.

Of a run that nobody announces any more the newest entries make the first picture. What lies before
them is read piece by piece while that is looked at, and goes through a series of its own; once it
has come to the newest one that series takes the place of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.past_pieces import (
    PastPeak,
    PastPiece,
    PastQuestion,
    PeakQuestion,
    begin_of,
)

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord
    from unilab_sidecar.feeding.summary import Summary
    from unilab_sidecar.picture import Rewards
    from unilab_sidecar.series import Series

_LOOKS = 4
"""After as many looks at what has come the first picture is drawn, which comes first."""


class WholeRun:
    """What is before the entries that have come. One owner, no locks."""

    def __init__(self, new_series: Callable[[], Series]) -> None:
        self.begin: int | None = None
        """The first of the entries that have come, or been read, without a hole at the beginning;
        ``None`` before there is one."""
        self._new_series = new_series
        self._is_wanted = self._is_opening = True
        self._is_read = False
        self._opened: list[HistoryRecord] = []
        self._came: list[HistoryRecord] = []
        self._last = self._lost = self._looks = 0
        self._now = Batch()
        self._summary: Summary | None = None
        self._asked: PastQuestion | PeakQuestion | None = None
        self._peak: tuple[str, float] | None = None
        self._series: Series | None = None

    @property
    def is_pending(self) -> bool:
        """Whether there is more to come that is said of the whole run."""
        return self._is_wanted and self.begin is not None and self.begin > 1

    def heed(self, batch: Batch) -> Batch:
        """Takes what has come; the same with all losses. What is announced is live, and begins
        where it was joined."""
        came: list[HistoryRecord] = []
        for record in batch.records:
            if self._is_opening and record.sequence > self._last + 1:
                # What run it is has been told before.
                self._opened, self._came, self.begin = [*self._came, *came], [], None
                came = []
            came.append(record)
            self._is_opening = self._is_opening and isinstance(record.entry, AttemptOpened)
            self.begin = self.begin or record.sequence
            self._last = record.sequence
        if batch.head is not None or (self.begin == 1 and not batch.behind):
            self._give_up()
        if self._is_wanted and not self._is_read:
            self._came += came
            self._now = replace(batch, records=(), answers=())
            self._summary = batch.summary or (None if batch.records else self._summary)
        return replace(batch, lost_entries=batch.lost_entries + self._lost) if self._lost else batch

    def question(self, reward_tag: str) -> PastQuestion | PeakQuestion | None:
        """What is to be asked of the feed now. To be asked with every look."""
        if self._asked or self._now.behind or not self.is_pending:
            return None
        self._looks += 1
        if self._looks < _LOOKS:
            return None
        first = self.begin or 1
        if self._is_read:
            if not reward_tag:
                self._give_up()
                return None
            self._asked = PeakQuestion(reward_tag, first - 1)
            return self._asked
        self._asked = PastQuestion(begin_of(self._came, first), first - 1)
        self._series = self._new_series()
        known = [one for one in self._opened if one.sequence <= self._asked.after]
        self._series.add(Batch(records=tuple(known)))
        return self._asked

    def with_peak(self, rewards: Rewards) -> Rewards:
        """With the highest one of the whole run, none while that is not known: of a part of it it
        would be no peak."""
        if self.is_pending:
            return replace(rewards, peak=None)
        if self._peak is None or rewards.peak is None or self._peak[0] != rewards.tag:
            return rewards
        return replace(rewards, peak=max(rewards.peak, self._peak[1]))

    def peak_answer(self, question: PeakQuestion, reply: PastPeak | NoAnswer) -> None:
        """The highest reward of a part of what has not been read. Where nobody tells it, what has
        been read has to do."""
        if question is not self._asked or (isinstance(reply, NoAnswer) and reply.may_come):
            return
        if isinstance(reply, PastPeak) and reply.value is not None:
            known = self._peak[1] if self._peak is not None else reply.value
            self._peak = question.tag, max(known, reply.value)
        if isinstance(reply, NoAnswer) or reply.complete:
            self._give_up()

    def answer(self, question: PastQuestion, reply: PastPiece | NoAnswer) -> Series | None:
        """A piece of it; the series of all when that is there."""
        if not self._is_wanted or question is not self._asked or self._series is None:
            return None
        if isinstance(reply, NoAnswer):
            if not reply.may_come:
                self._give_up()
            return None
        self._series.add(Batch(records=reply.records))
        self._lost += reply.lost
        if not reply.complete:
            return None
        whole, self.begin = self._series, question.after + 1
        whole.add(Batch(records=tuple(self._came)))
        lost = self._now.lost_entries + self._lost
        whole.add(replace(self._now, summary=self._summary, lost_entries=lost))
        self._is_read, self._asked = True, None
        return whole

    def _give_up(self) -> None:
        self._is_wanted, self._series = False, None
        self._opened, self._came = [], []
