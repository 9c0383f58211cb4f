"""What a process that closes may still hope for, and what it has to say of the rest.

Owned by the shipper's thread while that runs; afterwards by who closes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

from unilab_metrics.publish import losses, unsent
from unilab_metrics.publish.connection import Connection
from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.runless import LacksRun
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.turns import Turn
from unilab_metrics.storage.held_directory import HeldDirectory
from unilab_metrics.storage.path_text import path_text
from unilab_metrics.storage.spool_owner import RunFile
from unilab_metrics.transport.rendezvous import bus_directory

ABANDONED_AFTER_NS = 10_000_000_000
"""Who closes waits this long for an aggregator that somebody else must start, or that has never
come up, and for one that takes nothing in before somebody else comes."""
_MOMENT_NS = 3_000_000_000
"""An aggregator that is at work has done its part by then."""


class Prospects:
    """``is_keeper``: this process starts the aggregator. ``find_run``: the run directory as far
    as it is known. ``unopened``: why there is no run, while only this process can open it."""

    def __init__(
        self,
        spool: Spool,
        delivery: Delivery,
        connection: Connection,
        *,
        is_keeper: bool,
        wait_for_backends: bool,
        find_run: Callable[[], Path | None],
        unopened: LacksRun,
    ) -> None:
        self._spool = spool
        self._delivery = delivery
        self._connection = connection
        self._is_keeper = is_keeper
        self._wait_for_backends = wait_for_backends
        self._find_run = find_run
        self._unopened = unopened
        self._held = HeldDirectory()
        self.turn = Turn(spool.identity, delivery, find_run)
        self._closing_since_ns = 0
        self._last_try_made = False
        self._put_off_since_ns = 0
        self.trouble = ""
        """What is wrong with the aggregator that this process starts."""

    def closing(self) -> None:
        """The time that is waited at most begins. For the thread that closes."""
        self._closing_since_ns = monotonic_ns()

    def looked_after(self, trouble: str, *, hurry: bool) -> None:
        """The aggregator has been looked after once more. ``hurry``: for the end."""
        self._last_try_made = hurry
        is_put_off = hurry and self._delivery.put_off
        self._put_off_since_ns = (self._put_off_since_ns or monotonic_ns()) if is_put_off else 0
        self.trouble = trouble

    def heed_run(self) -> None:
        """Hold the run directory, to see whether it is removed; about once a second."""
        run_dir = self._find_run()
        if run_dir is not None and self._held.hold(run_dir):
            device, inode = self._held.file
            path = path_text(Path(os.path.abspath(run_dir)))
            self._spool.belongs_to(RunFile(path=path, device=device, inode=inode))

    @property
    def unsent(self) -> int:
        """Records that are not in the aggregator's journal; for any thread."""
        return max(self._spool.last - self._delivery.acked, 0)

    @property
    def is_done(self) -> bool:
        """Whether everything is durable (and in every backend, where that is waited for)."""
        delivery = self._delivery
        delivered = delivery.durable >= self._spool.last and self._spool.end_waits is None
        if not delivered or delivery.run_closed or not self._wait_for_backends:
            return delivered
        return self.turn.is_followed

    @property
    def may_say_hello(self) -> bool:
        """Whether the earlier publishers of this process in our place have been heard."""
        return self.turn.has_come

    @property
    def is_hopeless(self) -> bool:
        """While closing: nothing will come of waiting any longer."""
        delivery = self._delivery
        if delivery.refused or (delivery.run_closed and delivery.journal_full):
            return True
        if self._last_try_made and (self.removed_run or self._never_opened):
            return True
        since_ns = self._put_off_since_ns or max(delivery.answered_ns, self._closing_since_ns)
        # Ours either comes up within that time, or the next try will fail like the last ones.
        cannot_start = (self.trouble or self._connection.trouble) and not delivery.answered_ns
        is_abandoned = not self._is_keeper or cannot_start
        return bool(is_abandoned) and monotonic_ns() - since_ns >= ABANDONED_AFTER_NS

    @property
    def _never_opened(self) -> str:
        return "" if self._connection.was_found else self._unopened()

    @property
    def removed_run(self) -> Path | None:
        """The run directory, if it is gone for good and with it whoever takes something in. One
        that was moved is there, and so is one that was made anew."""
        path = self._held.path
        is_gone = path is not None and self._held.is_removed and not path.exists()
        return path if is_gone else None

    @property
    def is_in_hand(self) -> bool:
        """Whether our own aggregator, as far as we know, is on its way up or has just come, and
        takes what is left."""
        if not self._is_keeper:
            return False
        if not self.trouble and not self._delivery.answered_ns:
            return True
        is_soon = monotonic_ns() - self._closing_since_ns < _MOMENT_NS
        return is_soon and not self._why and not self._rest.end_trouble

    @property
    def left_behind(self) -> str:
        """What was not delivered, where it is, why, and how it will be."""
        if self._spool.inactive == losses.UNAVAILABLE and self.unsent:
            count = self._spool.losses.counts.get(losses.UNAVAILABLE, 0)
            return unsent.untold(count, self._spool.last_trouble, self._why)
        if self._never_opened:
            return unsent.without_run(self.unsent, self._spool.directory, self._never_opened)
        run_dir = self._find_run()
        is_here = run_dir is not None and bus_directory(run_dir).is_dir()
        if run_dir is not None and not (is_here or self._connection.was_found):
            return unsent.before_run(self.unsent, self._spool.directory, run_dir)
        is_elsewhere = self._connection.is_elsewhere and not is_here
        return unsent.left_behind(
            self._rest, self._spool.directory, run_dir, self._why, is_elsewhere=is_elsewhere
        )

    @property
    def awaited(self) -> str:
        """What rank 0, which waits for all others, waits for; empty for the rest. For the thread
        that closes."""
        return unsent.awaited(self._rest, self._why) if self._wait_for_backends else ""

    @property
    def _rest(self) -> unsent.Rest:
        spool, delivery = self._spool, self._delivery
        return unsent.Rest(
            unsent=self.unsent,
            unsynced=max(spool.last - delivery.durable, 0),
            end_trouble=spool.last_trouble if spool.end_waits is not None else "",
            awaited=delivery.awaited,
        )

    @property
    def _why(self) -> str:
        trouble = self._connection.trouble
        return trouble or unsent.reason(self._delivery, self.trouble, monotonic_ns())

    def close(self) -> None:
        """Hold nothing any more; idempotent."""
        self.turn.end()
        self._held.close()
