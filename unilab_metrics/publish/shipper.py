"""The one thread of ours in a training process: it sends the spool's bytes to the aggregator.

It decodes nothing. While frames wait it sends every 20 ms, otherwise an empty batch every
100 ms. Whatever fails in it is noted and tried again; the frames wait in the spool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, time_ns

import zmq

from unilab_metrics.helper_life import Heard
from unilab_metrics.publish import long_wait
from unilab_metrics.publish.adopting import Adopter
from unilab_metrics.publish.aggregator_care import StandIn, Supervise, no_run
from unilab_metrics.publish.answers import Answers
from unilab_metrics.publish.connection import SEARCH_INTERVAL_NS, Connection, FindBus
from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.drop_report import DropReport
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.neighbours import Neighbours
from unilab_metrics.publish.own_figures import OwnFigures
from unilab_metrics.publish.prospects import Prospects
from unilab_metrics.publish.runless import LacksRun, has_run
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.wakeup import Wakeup
from unilab_schema.codec import encode_message
from unilab_schema.control import Batch, Hello

SHIP_INTERVAL_NS = 20_000_000
PING_INTERVAL_NS = 100_000_000
CLOSING_PING_INTERVAL_NS = 20_000_000
MAX_BATCH_BYTES = 256 * 1024
ADOPTING_NS = 5_000_000_000
"""Who closes goes on that long with what a dead process of its node has left."""
_SECOND_NS = 1_000_000_000
_BUSY_SECOND_NS = 200_000_000
_BEGINNING_NS = 30_000_000_000
"""Ranks of other nodes look for the aggregator meanwhile, and wait for what the process does for
them that keeps it: rank 0."""
_PAUSE_S = (0.1, 1.0)


class Shipper:
    """Owns the socket; everything but :meth:`start`, :meth:`finish` and the properties runs in
    its own daemon thread.

    ``wait_for_backends``: the end is reached when every backend has the last update, not
    already when the journal has. ``find_run`` and ``unopened``: see :class:`Prospects`.
    ``figures``: what the publisher's ``log()`` costs, told with each batch.
    """

    def __init__(
        self,
        spool: Spool,
        counted: Losses,
        *,
        find_bus: FindBus,
        supervise: Supervise | None = None,
        stand_in: StandIn | None = None,
        wait_for_backends: bool = False,
        find_run: Callable[[], Path | None] = no_run,
        unopened: LacksRun = has_run,
        figures: OwnFigures | None = None,
        wakeup: Wakeup | None = None,
    ) -> None:
        self._spool = spool
        self._figures = OwnFigures() if figures is None else figures
        self._losses = counted
        self._supervise = supervise
        self._stand_in = stand_in
        self._delivery = Delivery()
        self._answers = Answers(spool, self._delivery, self._figures, counted)
        self._wakeup = wakeup or Wakeup()
        self._connection = Connection(find_bus, self._delivery, self._wakeup, counted)
        self.prospects = Prospects(
            spool,
            self._delivery,
            self._connection,
            is_keeper=supervise is not None,
            wait_for_backends=wait_for_backends,
            find_run=find_run,
            unopened=unopened,
        )
        """What is left and may be hoped for; after :meth:`finish` for who closes."""
        self._adopter = Adopter(
            spool.directory,
            lambda delivery, rank: Connection(find_bus, delivery, self._wakeup, counted, rank),
            counted,
        )
        self._neighbours = Neighbours(spool.directory)
        self._watermark_ns = 0
        self._last_batch_ns = 0
        self._last_records_ns = 0
        self._last_second_ns = 0
        self._drops = DropReport(spool, counted)
        self._closing = False
        self._closing_since_ns = 0
        self._stop = False
        self._thread = threading.Thread(
            target=self._run, name="unilab-metrics-shipper", daemon=True
        )

    def start(self) -> None:
        """Begin; once."""
        self._spool.wake_with(self._wakeup)
        self._thread.start()

    @property
    def bus_seen(self) -> bool:
        """Whether an aggregator was ever found."""
        return self._connection.was_found

    @property
    def unsent(self) -> int:
        """Records that are not in the aggregator's journal."""
        return self.prospects.unsent

    def tell_drops(self) -> None:
        """Have in the spool what was not logged up to now; nothing follows the end record."""
        self._drops.tell(wait_s=0.1, is_last=True)

    def finish(self, timeout_s: float) -> bool:
        """Send what there is and end the thread, within ``timeout_s`` and a little.

        True if everything is durable (and in every backend, where that is waited for).
        """
        self._closing_since_ns = monotonic_ns()
        self.prospects.closing()
        self._closing = True
        self._wakeup.wake()
        long_wait.join(self._thread, timeout_s, lambda: self.prospects.awaited)
        if self._thread.is_alive():
            self._stop = True
            self._wakeup.wake()
            self._thread.join(0.5)
        self._spool.wake_with(None)
        if not self._thread.is_alive():
            self._wakeup.close()
        return self.prospects.is_done

    def _is_alone_done(self) -> bool:
        is_late = monotonic_ns() - self._closing_since_ns >= ADOPTING_NS
        has_told = self._neighbours.are_told or not self._connection.is_elsewhere
        is_alone = has_told and not self._adopter.is_under_way
        return self.prospects.is_done and (is_late or is_alone)

    def _run(self) -> None:
        pause_s = _PAUSE_S[0]
        try:
            while not self._stop and not (
                self._closing and (self._is_alone_done() or self.prospects.is_hopeless)
            ):
                try:
                    self._turn()
                    pause_s = _PAUSE_S[0]
                except Exception as error:  # noqa: BLE001 - a training must not lose its shipper
                    self._losses.note(error)
                    self._connection.disconnect()
                    self._wakeup.wait(pause_s)
                    pause_s = min(2 * pause_s, _PAUSE_S[1])
        finally:
            self._adopter.close()
            self._connection.close()

    def _turn(self) -> None:
        now = monotonic_ns()
        if self._wakeup.reclaim():
            # Its poller waits for the pipe that was closed.
            self._connection.disconnect()
        self._drops.heed_closed(self._delivery.acked)
        self._drops.heed_shortened(self._delivery.acked)
        is_beginning = now - self._spool.identity.started_mono_ns < _BEGINNING_NS
        is_busy = self._closing or (is_beginning and self._supervise is not None)
        if now - self._last_second_ns >= (_BUSY_SECOND_NS if is_busy else _SECOND_NS):
            self._last_second_ns = now
            self._every_second()
        self._connection.search(now)
        # The dead come after us: who has their place shows of which attempt they are.
        if self._connection.is_elsewhere and self._delivery.answered_ns:
            self._adopter.turn(now)
        socket = self._connection.socket
        if socket is not None:
            self._answers.take(socket)
            if self._closing and self._connection.is_elsewhere:
                self._neighbours.look(now)
            self._delivery.resend_if_stuck(now)
            self._send(socket)
            self._spool.files.trim(self._delivery.durable)
            self._spool.use_room(self._delivery.durable)
        self._sleep()

    def _every_second(self) -> None:
        prospects, hurry = self.prospects, self._closing
        prospects.heed_run()
        if self._supervise is not None and not self._delivery.is_double:
            trouble = self._supervise(hurry=hurry, heard=self._heard())
        else:
            trouble = self._stand_in(hurry=hurry) if self._stand_in is not None else ""
        prospects.looked_after(trouble, hurry=hurry)
        if not self._closing:
            self._spool.try_again(monotonic_ns())
            self._drops.tell(is_delivered=self._delivery.durable >= self._spool.last)

    def _heard(self) -> Heard | None:
        connection = self._connection
        if connection.socket is None or connection.trouble or self._delivery.refused:
            return None
        return Heard(connection.aggregator_pid, self._delivery.answered_ns / 1e9)

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        delivery, spool = self._delivery, self._spool
        try:
            now = monotonic_ns()
            if delivery.hello_due(now) and self.prospects.may_say_hello:
                hello = Hello(spool.identity, spool.files.first, spool.last, now, time_ns())
                socket.send(encode_message(hello), zmq.NOBLOCK)
                delivery.hello_sent(now)
            if not delivery.greeted:
                return
            while (upto := delivery.sendable(spool.last)) > delivery.sent:
                batch = spool.files.take(
                    delivery.sent, upto, MAX_BATCH_BYTES, verify=delivery.must_verify
                )
                self._send_batch(socket, batch.records, batch.last)
                self._last_records_ns = self._last_batch_ns
            interval = CLOSING_PING_INTERVAL_NS if self._closing else PING_INTERVAL_NS
            if monotonic_ns() - self._last_batch_ns >= interval:
                self._send_batch(socket, b"", delivery.sent)
        except zmq.Again:
            # Nobody there, or no room: the same bytes are sent after a pause.
            self._last_records_ns = monotonic_ns()

    def _send_batch(self, socket: zmq.Socket[bytes], records: bytes, last: int) -> None:
        # The clock first: what is stamped later than this need not have been seen below.
        now = monotonic_ns()
        watermark = self._spool.sent_before_ns(last, now, self._watermark_ns)
        batch = Batch(
            self._spool.identity.incarnation,
            watermark,
            now,
            time_ns(),
            records,
            self._losses.counts,
            self._figures.read(self.unsent, now),
            self._losses.troubles,
            self._neighbours.tell(),
        )
        socket.send(encode_message(batch), zmq.NOBLOCK)
        self._watermark_ns = watermark
        self._last_batch_ns = now
        self._delivery.sent_upto(last, now)

    def _sleep(self) -> None:
        poller = self._connection.poller
        if self._connection.socket is None:
            self._wakeup.wait(SEARCH_INTERVAL_NS / 1e9)
            return
        if self._adopter.is_under_way:
            self._wakeup.wait(SHIP_INTERVAL_NS / 1e9)
            return
        if self._closing or not self._delivery.greeted:
            self._wakeup.wait(CLOSING_PING_INTERVAL_NS / 1e9, poller)
            return
        pause_ns = self._last_records_ns + SHIP_INTERVAL_NS - monotonic_ns()
        if pause_ns > 0:
            # Frames are coming; answers to what was sent can wait until the next batch.
            self._wakeup.wait(pause_ns / 1e9)
            return
        self._wakeup.armed = True
        if self._delivery.sendable(self._spool.last) <= self._delivery.sent:
            self._wakeup.wait(PING_INTERVAL_NS / 1e9, poller)
