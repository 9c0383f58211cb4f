"""Sending what a dead process of this node left, when the aggregator is on another one.

On its own node the aggregator reads the spools of the dead itself. Elsewhere a process of ours
does it: the first one that takes the lease of the dead, so that no two do. It speaks in the
name of the dead, over a connection of its own, and says so; thus the aggregator learns at once
that the process is gone, which it could only conclude from a minute's silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import NamedTuple

import zmq

from unilab_metrics.publish.connection import Connection
from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.losses import Losses
from unilab_metrics.storage import lease
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.orphans import is_abandoned, remove_spool, runs_here
from unilab_metrics.storage.places import spool_candidates
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolBatch, SpoolReader
from unilab_schema.codec import decode_downward, encode_message
from unilab_schema.control import Batch, Cursor, Hello
from unilab_schema.identity import Identity

LOOK_INTERVAL_NS = 1_000_000_000
PATIENCE_NS = 5_000_000_000
"""One that the aggregator does not take yet makes room for another after this."""
AGAIN_NS = 30_000_000_000
_BATCH_BYTES = 128 * 1024
"""One batch a turn: a training must not feel it."""
_PING_INTERVAL_NS = 100_000_000

Connect = Callable[[Delivery, int], Connection]
"""A connection of its own for each source, which speaks for its rank."""


class Orphan(NamedTuple):
    """A spool that we hold. ``last``: the highest sequence in it."""

    directory: Path
    held: Lease
    reader: SpoolReader
    identity: Identity
    last: int


class Adopter:
    """Looks for spools of the dead beside our own, and sends one at a time.

    Owned by the shipper's thread; ``turn`` never waits and never raises.
    """

    def __init__(self, own: Path, connect: Connect, counted: Losses) -> None:
        """``own``: our spool. ``connect``: makes a connection that nobody else uses."""
        self._own = own
        self._connect = connect
        self._losses = counted
        self._sending: _Sending | None = None
        self._look_at_ns = 0
        self._not_before_ns: dict[Path, int] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether something is being sent."""
        return self._sending is not None

    def turn(self, now: int) -> None:
        """Look, now and then, or send some more."""
        try:
            if self._sending is None and now >= self._look_at_ns:
                self._look_at_ns = now + LOOK_INTERVAL_NS
                orphan = self._find(now)
                if orphan is not None:
                    self._sending = _Sending(orphan, self._connect, self._losses)
            if self._sending is not None:
                self._send(self._sending, now)
        except Exception as error:  # noqa: BLE001 - the own frames must go on
            self._losses.note(error)
            self.close()

    def close(self) -> None:
        """Leave what was not sent to others."""
        if self._sending is not None:
            sending, self._sending = self._sending, None
            sending.close()

    def _send(self, sending: _Sending, now: int) -> None:
        sending.turn(now)
        if sending.is_delivered:
            remove_spool(sending.orphan.directory)
            self._look_at_ns = now
        if sending.is_delivered or sending.is_hopeless(now):
            self.close()

    def _find(self, now: int) -> Orphan | None:
        # Spools of one launch may lie in several of the places for spools.
        launch = self._own.parent
        roots = dict.fromkeys([launch, *(root / launch.name for root in spool_candidates())])
        for root in roots:
            with suppress(OSError):
                for directory in root.iterdir():
                    is_early = now < self._not_before_ns.get(directory, 0)
                    if directory == self._own or is_early or not is_abandoned(directory):
                        continue
                    self._not_before_ns[directory] = now + AGAIN_NS
                    orphan = self._take(directory)
                    if orphan is not None:
                        return orphan
        return None

    def _take(self, directory: Path) -> Orphan | None:
        held = None if directory.is_symlink() else lease.take(directory / LEASE_NAME)
        if held is None:
            return None
        try:
            reader = SpoolReader(directory)
            identity = reader.identity
            if (
                identity is not None
                and Path(identity.spool_path) == directory
                and not runs_here(identity)
            ):
                return Orphan(directory, held, reader, identity, reader.last())
        except BaseException:
            held.release(unlink=False)
            raise
        held.release(unlink=False)
        return None


class _Sending:
    """One spool under way."""

    def __init__(self, orphan: Orphan, connect: Connect, counted: Losses) -> None:
        self.orphan = orphan
        self._losses = counted
        self._delivery = Delivery()
        self._connection = connect(self._delivery, orphan.identity.key.rank)
        self._batches: Iterator[SpoolBatch] = iter(())
        self._read_upto = -1
        self._last_batch_ns = 0
        self._put_off_ns = 0
        self._is_unreadable = False

    @property
    def is_delivered(self) -> bool:
        """Whether everything is on the aggregator's disk."""
        delivery = self._delivery
        return delivery.greeted and delivery.durable >= self.orphan.last

    def is_hopeless(self, now: int) -> bool:
        """Whether it is another one's turn."""
        delivery = self._delivery
        self._put_off_ns = (self._put_off_ns or now) if delivery.put_off else 0
        is_put_off = self._put_off_ns and now - self._put_off_ns > PATIENCE_NS
        has_no_key = bool(self._connection.trouble) and self._connection.socket is None
        return bool(delivery.refused or self._is_unreadable or is_put_off or has_no_key)

    def turn(self, now: int) -> None:
        """Hear and say what there is to say; raises ``OSError`` for files that cannot be read."""
        self._connection.search(now)
        socket = self._connection.socket
        if socket is None:
            return
        self._receive(socket)
        self._delivery.resend_if_stuck(now)
        try:
            self._speak(socket, now)
        except zmq.Again:
            # What was read and not taken is read again.
            self._read_upto = -1

    def close(self) -> None:
        """Let the lease and the connection go."""
        self._connection.close()
        self.orphan.held.release(unlink=False)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                message = decode_downward(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            if isinstance(message, Cursor):
                self._delivery.take_cursor(message, self.orphan.last, monotonic_ns())
            else:
                self._delivery.take_reject(message, monotonic_ns())

    def _speak(self, socket: zmq.Socket[bytes], now: int) -> None:
        delivery, orphan = self._delivery, self.orphan
        if delivery.hello_due(now):
            # What the spool no longer holds is a gap of the reader's.
            hello = Hello(orphan.identity, 1, orphan.last, now, time_ns(), adopted=True)
            socket.send(encode_message(hello), zmq.NOBLOCK)
            delivery.hello_sent(now)
        if not delivery.greeted:
            return
        if delivery.sendable(orphan.last) > delivery.sent:
            batch = self._next(delivery.sent)
            if batch is None:
                self._is_unreadable = True
                return
            self._send(socket, batch.records, batch.last, now)
            self._read_upto = batch.last
        elif now - self._last_batch_ns >= _PING_INTERVAL_NS:
            self._send(socket, b"", delivery.sent, now)

    def _next(self, after: int) -> SpoolBatch | None:
        if after != self._read_upto:
            self._batches = self.orphan.reader.batches(after, _BATCH_BYTES)
            self._read_upto = after
        return next(self._batches, None)

    def _send(self, socket: zmq.Socket[bytes], records: bytes, last: int, now: int) -> None:
        watermark = now if last >= self.orphan.last else 0
        batch = Batch(self.orphan.identity.incarnation, watermark, now, time_ns(), records)
        socket.send(encode_message(batch), zmq.NOBLOCK)
        self._last_batch_ns = now
        self._delivery.sent_upto(last, now)
