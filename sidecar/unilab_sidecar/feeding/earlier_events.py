"""The events from before the place where a viewer has joined a run. Pure.

Who joins begins near the newest update; of very large updates that is a few seconds back. Events are
entries of their own, so they are looked for further back without the updates between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.codec import KIND_OF, RecordKind
from unilab_schema.updates import PointsUpdate

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord
    from unilab_metrics.subscribe.past_files import Stretch

MOST_STEPS = 40
"""Questions, each of which is some milliseconds of work for who answers it."""
_FIRST_BACK = 1024
_FURTHER = 4
_LIMIT = 10_000


def tags_of(records: Iterable[HistoryRecord]) -> set[str]:
    """Those of the points among the entries."""
    return {
        point.tag
        for record in records
        if isinstance(record.entry, PointsUpdate)
        for point in record.entry.frame.points
    }


class StretchAnswering(Protocol):
    """What this question needs of ``unilab_metrics.subscribe.Subscriber``."""

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        """Entries of the history, of some kinds or of all."""
        ...


class EventsBefore(NamedTuple):
    """Entries of the kinds that were asked for, in order."""

    records: tuple[HistoryRecord, ...]


@dataclass(frozen=True, slots=True)
class EventsQuestion:
    """The last events up to the update sequence ``until``, with starts and ends of attempts. The
    rest is how far the answer is: of the entries behind ``after`` up to ``end``, ``fresh`` are those
    up to ``reached``; ``found`` are those behind ``end``."""

    KINDS: ClassVar = (RecordKind.EVENT_UPDATE, RecordKind.ATTEMPT_OPENED, RecordKind.RUN_ENDED)
    ENOUGH: ClassVar = 100

    until: int
    after: int = -1
    end: int = 0
    reached: int = 0
    steps: int = 0
    fresh: tuple[HistoryRecord, ...] = ()
    found: tuple[HistoryRecord, ...] = ()

    def put(self, source: StretchAnswering) -> EventsBefore | EventsQuestion | NoAnswer | None:
        """Called in the feed's thread; a question in return is the next step."""
        if self.after < 0:
            begin = max(self.until - _FIRST_BACK, 0)
            return replace(self, after=begin, end=self.until, reached=begin)
        told = source.stretch(self.reached, _LIMIT, (), self.KINDS)
        if told is None:
            return None
        if isinstance(told, NoAnswer):
            return EventsBefore(self.found) if self.found and not told.may_come else told
        wanted = tuple(
            one
            for one in told.records
            if one.sequence <= self.end and KIND_OF[type(one.entry)] in self.KINDS
        )
        fresh, steps = (*self.fresh, *wanted), self.steps + 1
        if self.reached < told.last < self.end:
            if steps >= MOST_STEPS:
                # What lies between these and the others is not known: a hole would be a lie.
                return EventsBefore(self.found)
            return replace(self, reached=told.last, steps=steps, fresh=fresh)
        found = (*fresh, *self.found)
        if len(found) >= self.ENOUGH or self.after == 0 or steps >= MOST_STEPS:
            return EventsBefore(found)
        begin = max(self.after - _FURTHER * (self.end - self.after), 0)
        return replace(
            self, after=begin, end=self.after, reached=begin, steps=steps, fresh=(), found=found
        )


@dataclass(frozen=True, slots=True)
class PointsQuestion(EventsQuestion):
    """The last points, for their tags: no update carries these."""

    KINDS: ClassVar = (RecordKind.POINTS_UPDATE,)
    ENOUGH: ClassVar = 50
