"""Where a run stands, and who says so: its announcements, its entries, what it says of itself. Pure.

No clock is read here: ages come from the aggregator's clock in the announcements plus the feed's
``head_age_s``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from unilab_schema.control import Head, SourceStatus
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, HistoryEntry, RunEnded
from unilab_sidecar.alerting.one_loss import OneLoss
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.last_word import is_last_word
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.picture import Stage
from unilab_sidecar.progress.contact import Contact
from unilab_sidecar.progress.standing import SILENT_AFTER_S


class RunState:
    """As of the newest batch. One owner, no locks."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.now = Batch()
        """The newest one, of what holds only as of then."""
        self.ended: RunEnded | None = None
        """The newest entry, if that is an end."""
        self.contact = Contact()
        self.attempt_read = 0
        """The newest one that an entry has opened."""
        self._loss = OneLoss()
        self._run = RunInfo()
        self.summary: Summary | None = None
        """What the run says of itself after the end of its newest attempt."""

    def heed(self, batch: Batch) -> None:
        """Takes what the next batch says beside its entries, which :meth:`add` takes after that."""
        if batch.head is not None:
            self.head = batch.head
            self.contact.heed(batch.head)
        if batch.summary is not None:
            self.summary = batch.summary
        outage = self._loss.heed(batch)
        self.now = replace(batch, records=(), snapshot=None, answers=(), outage=outage)

    def add(self, entry: HistoryEntry) -> None:
        """Takes the next entry of the history."""
        # What follows the end takes it back.
        self.ended = entry if isinstance(entry, RunEnded) else None
        if isinstance(entry, AttemptOpened):
            self._run, self.attempt_read, self.summary = entry.run, entry.attempt, None

    @property
    def attempt(self) -> int:
        """The newest one that is known of."""
        return max(self.attempt_read, self.head.attempt if self.head else 0)

    @property
    def run(self) -> RunInfo:
        """Of the newest attempt."""
        if self.head is not None and self.head.attempt >= self.attempt_read:
            return self.head.run
        return self._run

    def stage(self, *, has_update: bool) -> Stage:
        """``has_update``: whether the newest attempt has one."""
        if self.end_status() is not None:
            return "ended"
        if has_update:
            return "training"
        return "waiting" if self.head is not None or self.attempt_read else "connecting"

    def end_status(self) -> str | None:
        """How the run has ended, ``None`` while it has not."""
        head = self.head
        if head is not None and head.ended is not None and head.attempt >= self.attempt_read:
            return head.ended
        if self.ended is not None:
            return self.ended.status
        return self.now.ended or None

    def told(self) -> Summary | None:
        """What the run says of itself, where it has ended without the aggregator's last word."""
        head = self.head
        is_told = (
            head is not None
            and head.attempt >= self.attempt_read
            and (is_last_word(head) or self.now.head_age_s <= SILENT_AFTER_S)
        )
        is_over = self.ended is not None or self.now.ended
        return None if is_told or not is_over else self.summary

    def sources(self) -> tuple[SourceStatus, ...]:
        """None where the run has ended without the aggregator that spoke of them, and says nothing
        of them itself."""
        if (summary := self.told()) is not None:
            return summary.sources
        head = self.head
        if head is not None and head.attempt < self.attempt_read:
            # Those of the attempt before; of this one nobody has told any yet.
            return ()
        is_old = head is not None and head.ended is None and self.now.head_age_s > SILENT_AFTER_S
        if is_old and self.ended is not None:
            return ()
        return self.contact.sources(are_gone=self.gone() is not None)

    def gone(self) -> tuple[str, ...] | None:
        """Who is gone of a run that nobody is at work on any more."""
        # Of a run that has ended everybody is gone.
        return self.now.gone if self.end_status() is None else None

    def silent_s(self, *, has_update: bool) -> float:
        """Since anybody has spoken; ``has_update``: whether an entry of the newest attempt has."""
        if self.head is not None:
            return self.now.head_age_s
        # What is known comes from files: nobody has spoken since this viewer looks.
        return math.inf if self.attempt_read or has_update else 0.0

    def age_s(self, mono_ns: int | None) -> float | None:
        """Since something was sealed; ``None`` if nobody knows, or the run is over."""
        head = self.head
        if mono_ns is None or head is None or self.end_status() is not None:
            return None
        if head.attempt < self.attempt_read:
            return None
        # What is shown may be newer than an announcement that was long on its way.
        return max((head.mono_ns - mono_ns) / 1e9 + self.made_s(), 0.0)

    def made_s(self) -> float:
        """Since the newest announcement was made."""
        return self.now.head_age_s + self.now.late_s
