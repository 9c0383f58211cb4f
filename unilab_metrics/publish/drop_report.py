"""Telling, in the spool itself, what it did not keep: as soon as it takes records again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic_ns

from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.frames import Drops, EventFrame

_OF_THE_SPOOL = frozenset(
    {losses.SPOOL_FULL, losses.SPOOL_QUOTA, losses.SPOOL_ERROR, losses.UNAVAILABLE}
)
"""What a spool refused for itself; while it does, batches tell how many."""

_MAX_WARNINGS = 8
QUIET_NS = 5_000_000_000
"""A spool that takes records may be full again at once, while it is being emptied: an outage is
over when everything is delivered, or when nothing was refused for this long."""


class DropReport:
    """For the shipper's thread, and for the one that closes the publisher."""

    def __init__(
        self, spool: Spool, counted: Losses, clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._spool = spool
        self._losses = counted
        self._clock = clock
        self._told: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._missing = 0
        self._quiet_since_ns = 0
        self._outages = 0
        self._has_warned_of_closing = False
        self._shortened = 0
        self._lock = threading.Lock()

    def tell(
        self, wait_s: float = 0.0, *, is_delivered: bool = False, is_last: bool = False
    ) -> None:
        """Append the counts if they have changed; an outage that is over also becomes one
        warning, which names the path and how many records it cost. ``wait_s``: for another
        thread that is just telling it. ``is_delivered``: nothing waits in the spool. ``is_last``:
        also of a spool that was never there, and whether or not its outage is over."""
        if self._lock.acquire(timeout=wait_s):
            try:
                spool = self._spool
                if is_last if spool.inactive else not spool.trouble:
                    self._tell(is_over=is_delivered or is_last, is_last=is_last)
                elif is_last:
                    self._leave_last_words()
            finally:
                self._lock.release()

    def _tell(self, *, is_over: bool, is_last: bool) -> None:
        now_ns = self._clock()
        (drops, troubles), (told, _) = self._losses.both, self._told
        if (drops, troubles) != self._told:
            payload = encode_payload(Drops(drops, troubles))
            if not self._spool.append(RecordKind.DROPS, lambda _mono, _unix: payload):
                return
            self._told = (drops, troubles)
            refused = sum(drops.get(r, 0) - told.get(r, 0) for r in _OF_THE_SPOOL)
            if refused:
                self._missing += refused
                self._quiet_since_ns = now_ns
        is_over = is_over or now_ns - self._quiet_since_ns >= QUIET_NS
        if not (self._missing and is_over) or (self._outages >= _MAX_WARNINGS and not is_last):
            return
        where = self._spool.last_trouble or str(self._spool.directory)
        if self._warn(f"{where}; {self._missing} records were not kept"):
            self._missing = 0
            self._outages += 1

    def _leave_last_words(self) -> None:
        """The outage is not over, and never will be for this process."""
        drops, (told, _) = self._losses.counts, self._told
        missing = self._missing + sum(drops.get(r, 0) - told.get(r, 0) for r in _OF_THE_SPOOL)
        text = f"{self._spool.trouble}; {missing} records were not kept"

        def words(mono_ns: int, unix_ns: int) -> bytes:
            return encode_payload(EventFrame("warning", text, mono_ns, unix_ns))

        if missing:
            self._spool.last_words = words

    def heed_closed(self, acked: int) -> None:
        """Find again what somebody in this process has closed of the spool, and say it once. For
        the shipper's thread; ``acked``: what needs no file any more. Raises ``OSError`` and
        ``StorageError`` while that does not work."""
        text = self._spool.reclaim(acked)
        if text:
            self._losses.note(OSError(text))
            self._has_warned_of_closing = self._has_warned_of_closing or self._warn(text)

    def heed_shortened(self, acked: int) -> None:
        """Save what is left of a spool that somebody has shortened, and say how much is not. As
        :meth:`heed_closed`."""
        text = self._spool.mend(acked)
        if text:
            self._losses.note(OSError(text))
            self._shortened += 1
            if self._shortened <= _MAX_WARNINGS:
                self._warn(text)

    def _warn(self, text: str) -> bool:
        return not self._spool.has_end and self._spool.append(
            RecordKind.EVENT,
            lambda mono, unix: encode_payload(EventFrame("warning", text, mono, unix)),
        )
