"""The shipper's socket: finding the aggregator, also when it has moved or does not answer."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from unilab_metrics.publish.delivery import SILENT_AFTER_NS, Delivery
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.transport import sockets
from unilab_metrics.transport.rendezvous import ConnectionFile

SEARCH_INTERVAL_NS = 50_000_000
_SECOND_NS = 1_000_000_000

FindBus = Callable[[], ConnectionFile | None]
"""Where the aggregator is; cheap, called often, ``None`` while there is none."""


class Connection:
    """Owned by the shipper's thread, but for :attr:`was_found`."""

    def __init__(self, find_bus: FindBus, delivery: Delivery, wakeup: Wakeup) -> None:
        self.socket: zmq.Socket[bytes] | None = None
        """``None`` while no aggregator is known."""
        self.poller: zmq.Poller | None = None
        """Waits for the socket and for the wakeup."""
        self._find_bus = find_bus
        self._delivery = delivery
        self._wakeup = wakeup
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._endpoint = ""
        self._searched_ns = 0

    @property
    def was_found(self) -> bool:
        """Whether an aggregator was ever found; for any thread."""
        return bool(self._endpoint)

    def search(self, now: int) -> None:
        """Look for the aggregator if there is a reason to."""
        if self._delivery.refused:
            return
        silent_ns = self._delivery.silent_ns(now)
        interval = SEARCH_INTERVAL_NS
        if self.socket is not None:
            if silent_ns < _SECOND_NS:
                return
            interval = _SECOND_NS
        if now - self._searched_ns < interval:
            return
        self._searched_ns = now
        bus = self._find_bus()
        if self.socket is not None:
            moved = bus is not None and bus.ingest != self._endpoint
            if not moved and silent_ns < SILENT_AFTER_NS:
                return
            # A client that was refused while connecting never tries again by itself.
            self.disconnect()
        if bus is not None:
            self._connect(bus.ingest, now)

    def disconnect(self) -> None:
        """Close the socket, if there is one; another search makes the next."""
        if self.socket is not None:
            made, self.socket = self.socket, None
            sockets.close([made])

    def close(self) -> None:
        """Leave nothing open."""
        self.disconnect()
        if self._context is not None:
            sockets.terminate(self._context)

    def _connect(self, endpoint: str, now: int) -> None:
        if self._context is None:
            self._context = sockets.context()
        self.socket = sockets.dealer(self._context, endpoint)
        self.poller = zmq.Poller()
        self.poller.register(self._wakeup.fileno(), zmq.POLLIN)
        self.poller.register(self.socket, zmq.POLLIN)
        self._endpoint = endpoint
        self._delivery.connected(now)
