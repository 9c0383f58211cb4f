"""Where a subscriber begins that is new to a live run. Pure: time and messages are handed in.

Near the end, or it would show the far past as now; but far enough back for a mean over the last
two seconds of updates, however many those are. What an entry weighs and how fast they come is
not known beforehand, so that a few are looked at first.
"""

from __future__ import annotations

from unilab_metrics.subscribe.fetching import Patience
from unilab_metrics.subscribe.known_layouts import KnownLayouts
from unilab_metrics.subscribe.position import Position, records_in
from unilab_schema.requests import Fetch, Updates
from unilab_schema.updates import Update

USUAL_ENTRIES = 1000
USUAL_BYTES = 2 * 1024 * 1024
"""As much is read beyond what is needed, for events and courses: what takes a moment only."""
REACH_NS = 2_000_000_000
"""On the aggregator's clock, before the newest update."""
_SLOW_S, _USUAL_S = 0.1, 1.0
"""Where the first few entries take longer than one, only as much is read as comes in the other."""
_LAST = 4
_FASTER = 16
_MARGIN = 1.25


class Joining:
    """Asks for a few entries at a time until it is known where to begin; of another aggregator or
    journal a new one does. Owned by one thread."""

    def __init__(self) -> None:
        self._sent: tuple[int, float] | None = None
        self._asked = Fetch(0, 0)
        self._known = KnownLayouts()
        self._newest: Update | None = None
        self._entry_bytes = 1
        self._back = _LAST
        self._patience = Patience()

    def due(self, position: Position, now_s: float) -> Fetch | None:
        """What to ask for now; its number is the caller's to give, who then calls :meth:`sent`."""
        head = position.head
        if head is None or not self._patience.is_due(now_s):
            return None
        limit = self._back if self._newest is None else _LAST
        self._known = position.known
        after = max(head.update - self._back, 0)
        self._asked = Fetch(0, after, limit, known=self._known.marks())
        return self._asked

    def sent(self, number: int, now_s: float) -> None:
        """The request went out under this number."""
        self._sent = (number, now_s)
        self._patience.asked(now_s)

    def take(self, reply: Updates, now_s: float) -> int | None:
        """Behind which update sequence to begin, ``None`` while that is not known."""
        if self._sent is None or reply.request != self._sent[0]:
            return None
        took_s, self._sent = now_s - self._sent[1], None
        self._patience.forget()
        self._known.note(reply.layouts)
        records = records_in(reply, self._known.tags).records
        updates = [one.entry for one in records if isinstance(one.entry, Update)]
        begin = self._asked.after
        if self._newest is None:
            size = len(reply.records)
            return self._look_at_the_end(begin, updates, size, len(records), took_s)
        first = updates[0] if updates else None
        if begin == 0 or (first is not None and is_before(first, self._newest)):
            return begin
        self._back = self._further(first, self._newest)
        return None

    def _look_at_the_end(
        self, begin: int, updates: list[Update], size: int, count: int, took_s: float
    ) -> int | None:
        if begin == 0 or (not updates and self._back >= USUAL_ENTRIES):
            return begin
        if not updates:
            self._back *= _FASTER
            return None
        self._newest = updates[-1]
        self._entry_bytes = max(size // max(count, 1), 1)
        usual_bytes = int(size / took_s * _USUAL_S) if took_s > _SLOW_S else USUAL_BYTES
        usual = min(USUAL_ENTRIES, min(usual_bytes, USUAL_BYTES) // self._entry_bytes)
        self._back = max(self._back, usual)
        return None

    def _further(self, first: Update | None, newest: Update) -> int:
        most = self._back * _FASTER
        if first is None:
            return most
        since_ns = max(newest.sealed_mono_ns - first.sealed_mono_ns, 1)
        wanted = self._back * REACH_NS * _MARGIN / since_ns
        return int(min(max(wanted, self._back * _MARGIN), most)) + 1


def is_before(first: Update, newest: Update) -> bool:
    """Whether all that is averaged with the newest update comes after the first one."""
    since_ns = newest.sealed_mono_ns - first.sealed_mono_ns
    # A clock that went back is another one, of another node.
    return first.attempt != newest.attempt or since_ns < 0 or since_ns > REACH_NS
