"""What lines of text are made of: a run as of its newest entries, and at its end its peak. Pure.

Of a very long run that is over only the last entries are read. The highest reward of all of it comes
out of the history in brief, before anything is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.feeding.batch import Batch, Failure
from unilab_sidecar.feeding.past_pieces import PastPeak, PeakQuestion
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series
from unilab_sidecar.values.end_peak import EndPeak

PEAK_WITHIN_S = 30.0
"""After an answer that has not come by then, the peak is that of what was read."""


class _Feed(Protocol):
    """What this needs of ``Feed``."""

    run_dir: str
    target: str

    def ask(self, question: PeakQuestion) -> None:
        """Have a question answered in a later batch."""
        ...


class PrintedRun:
    """One owner, no locks. ``is_untold``: as ``Batch`` has it."""

    def __init__(self, feed: _Feed, *, is_past: bool) -> None:
        """``is_past``: it is played from its files."""
        self._feed = feed
        self._is_past = is_past
        self._series = Series(feed.run_dir, feed.target)
        self._peak = EndPeak()
        self._until_s = math.inf
        self.is_untold = False

    def take(self, batches: Iterable[Batch]) -> Failure | None:
        """What has come; why nothing follows, if that is so."""
        for batch in batches:
            if batch.failure is not None:
                return batch.failure
            self._series.add(batch)
            self.is_untold = batch.is_untold
            for question, reply in batch.answers:
                if isinstance(question, PeakQuestion) and isinstance(reply, PastPeak | NoAnswer):
                    self._peak.answer(question, reply)
                    self._until_s = math.inf
        return None

    def picture(self, now_s: float) -> Picture | None:
        """The run as of what has come, ``None`` while more is needed for that. ``now_s``: on any
        clock that only rises."""
        if self._series.behind:
            return None
        picture = self._series.picture()
        # Of a run that goes on the announcements tell its peak.
        is_end = self._is_past or picture.ended is not None or picture.gone is not None
        self._peak.heed(picture, self._series.untold_through + 1, is_whole=is_end)
        if (question := self._peak.question()) is not None:
            self._feed.ask(question)
        if self._peak.is_awaited:
            self._until_s = min(self._until_s, now_s + PEAK_WITHIN_S)
            if now_s < self._until_s:
                return None
        return replace(picture, rewards=self._peak.of(picture.rewards))
