"""The courses that the charts draw, out of what the feed hands over. Pure.

Of a run that is followed from its beginning, the usual tags are kept with it; the past of others,
and of a run that somebody joined later, is asked of the feed as soon as the charts are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from unilab_sidecar.chart_store import ChartStore, HistoryPiece
from unilab_sidecar.past_questions import CourseQuestion

if TYPE_CHECKING:
    from unilab_metrics.subscribe.asking import NoAnswer
    from unilab_metrics.subscribe.history import HistoryRecord

_MOST_HELD = 50_000
"""Records that wait while the display is paused; more than that, and the charts go on."""


class ChartKeeping:
    """One owner, no locks."""

    def __init__(self, usual: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """``usual``: those of a run's tags that are kept unasked."""
        self.store = ChartStore()
        self._usual = usual
        self._kept_unasked: tuple[str, ...] = ()
        self._chosen: tuple[str, ...] = ()
        self._layout: tuple[str, ...] | None = None
        self._first: int | None = None
        self._seen = 0
        self._through = 0
        self._held: list[HistoryRecord] = []
        self._asked: CourseQuestion | None = None

    @property
    def is_loading(self) -> bool:
        """Whether a part of the past is on its way."""
        return self._asked is not None

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
        """A piece of the past. Where nobody tells it, the courses begin now."""
        if question is not self._asked:
            return
        is_told = isinstance(reply, HistoryPiece)
        if is_told:
            self.store.add_piece(reply)
        else:
            for tag, after in self.store.wanted:
                if tag in question.tags:
                    through = max(self._through, after)
                    self.store.add_piece(HistoryPiece((tag,), after, through, complete=True))
        if not is_told or reply.complete:
            self._asked = None

    def restart(self) -> None:
        """What comes now comes from another place of the history, or of another one."""
        self._first, self._through, self._asked = None, 0, None
        self._held.clear()
        self.store.keep(())
        self._kept_unasked, self._layout = (), None
        self._keep()

    def add(self, records: Iterable[HistoryRecord], *, is_paused: bool) -> None:
        """Takes live records; they are drawn once the display is live."""
        for record in records:
            if self._first is None or record.sequence > self._seen + 1:
                self._first = record.sequence
            self._seen = record.sequence
            if record.tags and record.tags is not self._layout:
                self._layout = record.tags
                self._find_usual(record.tags)
            self._held.append(record)
        if self._held and (not is_paused or len(self._held) > _MOST_HELD):
            self.store.add_records(self._held)
            self._through = self._held[-1].sequence
            self._held.clear()

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
