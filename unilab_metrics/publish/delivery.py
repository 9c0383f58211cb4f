"""How far a source's records have come, and what may be sent next. Pure.

``acked``: journaled by the aggregator (its cursor). ``durable``: on its disk. ``sent``: given
to the socket. Times are nanoseconds of one monotonic clock, passed in.
"""

from __future__ import annotations

from unilab_schema.control import Cursor, Epoch, Reject

WINDOW_FRAMES = 512
"""Frames beyond the cursor that may be under way until a Cursor says otherwise."""
HELLO_INTERVAL_NS = 1_000_000_000
SILENT_AFTER_NS = 5_000_000_000
"""Without a word from the aggregator for this long, the socket is made anew."""
DUPLICATE = "duplicate_rank: "
"""Another process has the place; what we say is none of the run's numbers."""
RESEND_AFTER_NS = 2_000_000_000
RESEND_AT_MOST_NS = 30_000_000_000


class Delivery:
    """The state of one source towards the aggregator, over reconnects and its restarts."""

    def __init__(self) -> None:
        self.acked = 0
        self.durable = 0
        self.sent = 0
        self.greeted = False
        """Whether the aggregator knows us on this connection."""
        self.run_closed = False
        """Whether the run has ended and every backend has its last update."""
        self.refused = ""
        """Why the aggregator will never take anything from us; empty while it does."""
        self.put_off = ""
        """Why the aggregator does not take anything from us yet; empty while it does."""
        self.journal_full = ""
        """Why the aggregator can journal nothing now; empty while it can."""
        self.awaited = ""
        """What the end of the run waits for; empty if that is not known."""
        self.answered_ns = 0
        """When the aggregator last said something, 0 for never."""
        self._epoch: Epoch | None = None
        self._window = WINDOW_FRAMES
        self._doubtful_upto = 0
        self._hello_at_ns = 0
        self._heard_ns = 0
        self._progress_ns = 0
        self._resend_after_ns = RESEND_AFTER_NS

    def connected(self, now_ns: int) -> None:
        """A new connection: nothing under way on the old one is certain."""
        self.greeted = False
        self.sent = self.acked
        self._hello_at_ns = self._heard_ns = self._progress_ns = now_ns

    def hello_due(self, now_ns: int) -> bool:
        """Whether to say Hello now; the answer is a Cursor or a Reject."""
        return not self.greeted and not self.refused and now_ns >= self._hello_at_ns

    def hello_sent(self, now_ns: int) -> None:
        """Say it again later if nobody answers."""
        self._hello_at_ns = now_ns + HELLO_INTERVAL_NS

    def sendable(self, last: int) -> int:
        """The highest sequence that may be sent, of those up to ``last``."""
        if not self.greeted or self.refused:
            return self.sent
        return max(self.sent, min(last, self.acked + self._window))

    @property
    def must_verify(self) -> bool:
        """Whether what comes next was refused once: its bytes may be damaged here."""
        return self.sent < self._doubtful_upto

    def sent_upto(self, sequence: int, now_ns: int) -> None:
        """Given to the socket."""
        if self.sent == self.acked:
            self._progress_ns = now_ns
        self.sent = sequence

    def take_cursor(self, cursor: Cursor, last: int, now_ns: int) -> None:
        """The aggregator's answer. ``last``: the highest sequence there is."""
        reached = min(cursor.cursor, last)
        durable = min(cursor.durable, reached)
        known = self._epoch
        if known is not None and cursor.epoch.journal == known.journal and cursor.epoch < known:
            return
        self._heard_ns = self.answered_ns = now_ns
        self.journal_full = cursor.journal_full
        self.awaited = cursor.awaited
        self.greeted = True
        self.put_off = ""
        self.run_closed = self.run_closed or cursor.closed
        self._window = max(cursor.window, 1)
        if cursor.epoch != known:
            self._epoch = cursor.epoch
            self.acked = self.sent = reached
            self.durable = durable
            self._progressed(now_ns)
            return
        self.durable = max(self.durable, durable)
        if reached > self.acked:
            self.acked = reached
            self._progressed(now_ns)
        self.sent = max(self.sent, reached)
        if cursor.rewind:
            self._doubtful_upto = max(self._doubtful_upto, self.sent)
            self.sent = max(self.acked, reached)

    def take_reject(self, reject: Reject, now_ns: int) -> None:
        """The aggregator's refusal: for ever, or until the next Hello."""
        self._heard_ns = self.answered_ns = now_ns
        self.greeted = False
        self.sent = self.acked
        if reject.final:
            self.refused = f"{reject.code}: {reject.text}"
        elif reject.code == "unknown_source":
            self._hello_at_ns = now_ns
        else:
            self.put_off = f"{reject.code}: {reject.text}"
            self._hello_at_ns = now_ns + int(max(reject.retry_after_s, 0.1) * 1e9)

    def resend_if_stuck(self, now_ns: int) -> None:
        """Go back to the cursor when it has not moved for long: what was under way may have
        been lost with a connection that ZeroMQ has mended by itself."""
        if self.sent > self.acked and now_ns - self._progress_ns >= self._resend_after_ns:
            self.sent = self.acked
            self._progress_ns = now_ns
            self._resend_after_ns = min(2 * self._resend_after_ns, RESEND_AT_MOST_NS)

    @property
    def is_double(self) -> bool:
        """Whether another process has our place for good, and with it the run."""
        return self.refused.startswith(DUPLICATE)

    def silent_ns(self, now_ns: int) -> int:
        """How long the aggregator has said nothing."""
        return now_ns - self._heard_ns

    def _progressed(self, now_ns: int) -> None:
        self._progress_ns = now_ns
        self._resend_after_ns = RESEND_AFTER_NS
