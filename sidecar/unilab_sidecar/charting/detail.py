"""The entries of a window of the charts one by one, where the courses hold them joined. Pure.

A course is some thousand bins, whatever the length of the run: in a window of two hundred updates
of a week there may be a single one. So the stretch that is looked at, and some of it on both sides,
is asked of the feed and drawn in the place of those bins. The same holds for all of a run whose past
has come in blocks, which are wider than a column if the run is short. What is asked for is bounded
by entries and by bytes; a window with more than that is drawn from the bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.charting.bins import MAX_BINS, Bins, Bools, Field, Float64s, Span, XAxis
from unilab_sidecar.charting.store import ChartStore, HistoryPiece
from unilab_sidecar.feeding.past_questions import DetailQuestion

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

MOST_BINS = 8192
"""Per tag; more entries than these are joined."""
MOST_ENTRIES = 32 * 1024
MOST_OF_ALL = 128 * 1024
"""Entries of a whole run: of a longer one, a block of a thousand is no wider than a cell."""
LEAST_ENTRIES = 4096
"""Of which a stretch may have as many, whatever they weigh: some blocks of a thousand."""
MOST_BYTES = 128 * 1024 * 1024
"""That somebody has to look through for it."""
_ENOUGH = 1024
"""Equal bins in a window: more cannot be told apart."""
EVER = 1 << 62
"""Beyond every entry."""
_ENDS = ((Field.ITERATION_FROM, Field.ITERATION_TO), (Field.ENV_STEPS_FROM, Field.ENV_STEPS_TO),
         (Field.TIME_FROM, Field.TIME_TO), (Field.UNIX_FROM, Field.UNIX_TO))  # fmt: skip


class Entries(NamedTuple):
    """Of the history, both included."""

    first: int
    last: int

    def holds(self, other: Entries) -> bool:
        """Whether the other ones are among these."""
        return self.first <= other.first and other.last <= self.last


class Window(NamedTuple):
    """What is looked at. ``known``: how many tags the run has, of which an update holds most.
    ``is_whole``: all of the run, also what comes."""

    tags: tuple[str, ...]
    axis: XAxis
    span: Span
    known: int
    is_whole: bool = False


class _Part:
    """One stretch. ``is_open``: it goes on with the live records."""

    def __init__(
        self, whole: ChartStore, window: Window, entries: Entries, *, is_open: bool
    ) -> None:
        self.tags, self.entries, self.is_open = window.tags, entries, is_open
        after = entries.first - 1
        most = MAX_BINS if window.is_whole else MOST_BINS
        self.store = ChartStore(max_bins=most, after=after, clocks=whole.clocks)
        self.store.keep(window.tags)
        self.through = entries.first - 1
        self.is_complete = False

    @property
    def is_joined(self) -> bool:
        return any(
            (b[Field.SEQUENCE_TO] > b[Field.SEQUENCE_FROM]).any()
            for b in map(self.store.bins, self.tags)
        )

    def suits(self, tags: Sequence[str], entries: Entries) -> bool:
        """Whether these entries are here, as fine as they could be."""
        first, last = self.entries.first, max(self.entries.last, self.through)
        covered = Entries(first, EVER if self.is_open else last)
        if not covered.holds(entries) or not set(self.tags).issuperset(tags):
            return False
        if not self.is_complete or not self.is_joined:
            return True
        has = last - first + 1
        return has <= 4 * (entries.last - entries.first + 1)


class ChartDetail:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._shown: _Part | None = None
        self._coming: _Part | None = None
        self._asked: DetailQuestion | None = None

    @property
    def is_loading(self) -> bool:
        """Whether a stretch is on its way."""
        return self._coming is not None

    @property
    def progress(self) -> float:
        """How much of that has come, from 0 to 1 (all of it)."""
        part = self._coming
        if part is None:
            return 1.0
        first, last = part.entries
        return min((part.through - first + 1) / max(last - first + 1, 1), 0.99)

    def forget(self) -> None:
        """Nobody looks at a window any more, or it is one of another history."""
        self._shown = self._coming = self._asked = None

    def give_way(self) -> None:
        """Something else is asked, and what is on its way does not come any more."""
        self._coming = self._asked = None

    def question(self, store: ChartStore, window: Window, seen: int) -> DetailQuestion | None:
        """What is to be asked of the feed for this window; ``None`` while that is on its way, is
        here, or is too much. ``seen``: the newest entry that has been handed over."""
        entries = _joined_entries(store, window)
        if entries is None:
            return None
        for part in (self._coming, self._shown):
            if part is not None and part.suits(window.tags, entries):
                return None
        most = MOST_OF_ALL if window.is_whole else MOST_ENTRIES
        most = min(max(MOST_BYTES // (8 * window.known + 100), LEAST_ENTRIES), most)
        count = entries.last - entries.first + 1
        if count > most:
            self.give_way()
            return None
        more = min(count // 2, (most - count) // 2)
        wanted = Entries(max(entries.first - more, 1), entries.last + more)
        if window.is_whole:
            wanted = entries
        is_open = wanted.last >= seen or (window.is_whole and seen < EVER)
        self._coming = _Part(store, window, wanted, is_open=is_open)
        through = 0 if self._coming.is_open else wanted.last
        self._asked = DetailQuestion(window.tags, wanted.first - 1, through)
        return self._asked

    def answer(self, question: DetailQuestion, reply: HistoryPiece | NoAnswer) -> None:
        """A piece of the stretch. Where nobody tells it, the joined bins stay."""
        part = self._coming
        if part is None or question is not self._asked:
            return
        if isinstance(reply, NoAnswer):
            # Not asked again before somebody looks elsewhere.
            part.is_complete, self._asked = True, None
            self._shown, self._coming = part, None
            part.store.keep(())
            return
        part.store.add_piece(reply)
        part.through = max(part.through, reply.through)
        if reply.complete:
            part.is_complete = True
            self._shown, self._coming, self._asked = part, None, None

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        """Takes live records."""
        for part in (self._shown, self._coming):
            if part is not None and part.is_open and part.is_complete and records:
                part.store.add_records(records)
                part.through = max(part.through, records[-1].sequence)

    def over(self, tag: str, bins: Bins) -> Bins:
        """A tag's course with the stretch in its place."""
        part = self._shown
        if part is None or tag not in part.store.tags:
            return bins
        return spliced(bins, part.store.bins(tag), Entries(part.entries.first, part.through))


def _joined_entries(store: ChartStore, window: Window) -> Entries | None:
    """What the window shows, if that is coarser than it could be."""
    first, last, needs = EVER, 0, False
    for tag in window.tags:
        bins = store.joined(tag)
        begins, ends = bins.along(window.axis)
        inside = bins.where((ends >= window.span.low) & (begins <= window.span.high))
        if not len(inside):
            continue
        first = min(first, int(inside[Field.SEQUENCE_FROM].min()))
        last = max(last, int(inside[Field.SEQUENCE_TO].max()))
        # One that is far wider than the others would show, however many these are.
        is_joined = inside[Field.SEQUENCE_TO] > inside[Field.SEQUENCE_FROM]
        widest = inside.updates[is_joined].max(initial=0.0)
        needs = needs or bool(widest * _ENOUGH > inside.updates.sum())
    return Entries(first, last) if needs else None


def spliced(bins: Bins, part: Bins, entries: Entries) -> Bins:
    """The bins with those of ``part`` in the place of these entries. A bin that reaches into them is
    cut there: what it says is of its rest too."""
    if not len(part):
        return bins
    begins, ends = bins[Field.SEQUENCE_FROM], bins[Field.SEQUENCE_TO]
    before = np.array(bins.table[:, begins < entries.first])
    behind = np.array(bins.table[:, ends > entries.last])
    into = before[Field.SEQUENCE_TO] >= entries.first
    out_of = behind[Field.SEQUENCE_FROM] <= entries.last
    _limit(before, into, part.table[:, 0], ends_there=True)
    _limit(behind, out_of, part.table[:, -1], ends_there=False)
    before[Field.SEQUENCE_TO, into] = entries.first - 1
    behind[Field.SEQUENCE_FROM, out_of] = entries.last + 1
    return Bins(np.concatenate([before, part.table, behind], axis=1))


def _limit(table: Float64s, which: Bools, at: Float64s, *, ends_there: bool) -> None:
    for low, high in _ENDS:
        if ends_there:
            table[high, which] = np.fmax(np.fmin(table[high, which], at[low]), table[low, which])
        else:
            table[low, which] = np.fmin(np.fmax(table[low, which], at[high]), table[high, which])
