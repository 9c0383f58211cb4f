"""What the aggregator answers to a source: cursors, and refusals. In the shipper's thread."""

from __future__ import annotations

from time import monotonic_ns

import zmq

from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.own_figures import OwnFigures
from unilab_metrics.publish.spool import Spool
from unilab_schema.codec import FrameDecodeError, decode_downward
from unilab_schema.control import Cursor


class Answers:
    """Owned by the shipper's thread."""

    def __init__(
        self, spool: Spool, delivery: Delivery, figures: OwnFigures, counted: Losses
    ) -> None:
        self._spool = spool
        self._delivery = delivery
        self._figures = figures
        self._losses = counted

    def take(self, socket: zmq.Socket[bytes]) -> None:
        """Heed all that has come, without waiting; what is none of the protocol is noted."""
        while True:
            try:
                data = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = decode_downward(data)
            except FrameDecodeError as error:
                self._losses.note(error)
                continue
            now = monotonic_ns()
            if isinstance(message, Cursor):
                self._take_cursor(message, now)
            else:
                self._delivery.take_reject(message, now)
                if message.code != "unknown_source":
                    self._losses.note(ConnectionRefusedError(f"{message.code}: {message.text}"))

    def _take_cursor(self, cursor: Cursor, now: int) -> None:
        delivery, spool = self._delivery, self._spool
        before = delivery.acked
        delivery.take_cursor(cursor, spool.last, now)
        if cursor.refused:
            self._losses.refused_by_run = cursor.refused
        if delivery.acked > before:
            self._figures.acknowledged(now - spool.files.stamp_ns(before + 1), now)
