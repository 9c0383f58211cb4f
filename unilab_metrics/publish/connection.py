"""The shipper's socket: finding the aggregator, also when it has moved, does not answer, or
refuses our key."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import zmq

from unilab_metrics.errors import KeyFileError
from unilab_metrics.publish import losses
from unilab_metrics.publish.delivery import SILENT_AFTER_NS, Delivery
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.transport import monitoring, sockets
from unilab_metrics.transport.allow_list import PUBLISH
from unilab_metrics.transport.monitoring import Monitor
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_metrics.transport.routes import Route, choose_route

SEARCH_INTERVAL_NS = 50_000_000
_SECOND_NS = 1_000_000_000
_DESCRIPTORS = 24

FindBus = Callable[[], ConnectionFile | None]
"""Where the aggregator is; cheap, called often, ``None`` while there is none. ``run_dir`` is
the run directory as this process sees it."""


class Connection:
    """Owned by the shipper's thread, but for :attr:`was_found`."""

    def __init__(
        self,
        find_bus: FindBus,
        delivery: Delivery,
        wakeup: Wakeup,
        counted: Losses,
        rank: int | None = None,
    ) -> None:
        """``rank``: for whom it speaks, if not for this process."""
        self.socket: zmq.Socket[bytes] | None = None
        """``None`` while no aggregator is known."""
        self.poller: zmq.Poller | None = None
        """Waits for the socket and for the wakeup."""
        self.aggregator_pid = 0
        """Who listens at the other end, as the connection file says."""
        self._find_bus = find_bus
        self._delivery = delivery
        self._wakeup = wakeup
        self._losses = counted
        self._rank = rank
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._monitor: Monitor | None = None
        self._route: Route | None = None
        self._searched_ns = 0
        self._was_welcomed = False
        self._is_refused = False
        self.trouble = ""
        """Why there is no connection, as far as it is our key or the system that refuses one;
        empty if neither does. For any thread."""

    @property
    def was_found(self) -> bool:
        """Whether an aggregator was ever found; for any thread."""
        return self._route is not None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the aggregator is on another node, as far as we know."""
        return self._route is not None and self._route.curve is not None

    def search(self, now: int) -> None:
        """Look for the aggregator if there is a reason to."""
        if self._delivery.refused:
            return
        if self._delivery.greeted:
            self.trouble = ""
        self._heed_monitor(now)
        silent_ns = self._delivery.silent_ns(now)
        interval = SEARCH_INTERVAL_NS
        if self.socket is not None:
            if silent_ns < _SECOND_NS:
                return
            interval = _SECOND_NS
        if now - self._searched_ns < interval:
            return
        self._searched_ns = now
        route = self._find_route()
        if self.socket is not None:
            moved = route is not None and route != self._route
            # A client that was refused while connecting never tries again by itself.
            if not moved and not self._was_refused() and silent_ns < SILENT_AFTER_NS:
                return
            self.disconnect()
        if route is not None:
            self._connect(route, now)

    def disconnect(self) -> None:
        """Close the socket, if there is one; another search makes the next."""
        if self.socket is not None:
            made, self.socket = self.socket, None
            if self._monitor is not None:
                self._monitor.close()
                self._monitor = None
            sockets.close([made])

    def close(self) -> None:
        """Leave nothing open."""
        self.disconnect()
        if self._context is not None:
            sockets.terminate(self._context)

    def _watch(self, made: zmq.Socket[bytes]) -> None:
        if self._context is not None and made.get(zmq.MECHANISM) == zmq.CURVE:
            kinds = monitoring.FAILURES | monitoring.WELCOMED
            self._monitor = Monitor(self._context, made, kinds)

    def _find_route(self) -> Route | None:
        bus = self._find_bus()
        if bus is None:
            return None
        self.aggregator_pid = bus.pid
        try:
            return choose_route(bus, bus_directory(Path(bus.run_dir)), PUBLISH, self._rank)
        except KeyFileError as error:
            self._key_trouble(losses.KEY_UNUSABLE, str(error))
            return None

    def _heed_monitor(self, now: int) -> None:
        if self._monitor is None:
            return
        for happening in self._monitor.take():
            self._is_refused = happening.kind == monitoring.REFUSED
            if happening.kind == monitoring.WELCOMED:
                self.trouble = ""
                if self._was_welcomed:
                    # ZeroMQ has mended the connection; what was under way is gone.
                    self._delivery.connected(now)
                self._was_welcomed = True

    def _was_refused(self) -> bool:
        if self._route is None or self._route.curve is None or not self._is_refused:
            return False
        path = self._route.curve.origin
        text = f"the aggregator refuses the key {path}; put its public half on the run's list"
        self._key_trouble(losses.KEY_REFUSED, text)
        return True

    def _key_trouble(self, reason: str, text: str) -> None:
        if text != self.trouble:
            # Once for each time that it begins: no frame is lost by it yet.
            self._losses.count(reason)
            self._losses.note(PermissionError(text))
            self.trouble = text

    def _connect(self, route: Route, now: int) -> None:
        if self._context is None:
            try:
                _check_descriptors(self._wakeup.fileno())
            except OSError as error:
                self.trouble = f"this process cannot connect: {error.strerror}"
                raise
            self._context = sockets.context()
        self.socket = sockets.dealer(self._context, route.ingest, route.curve, self._watch)
        self._was_welcomed = self._is_refused = False
        self.poller = zmq.Poller()
        self.poller.register(self._wakeup.fileno(), zmq.POLLIN)
        self.poller.register(self.socket, zmq.POLLIN)
        self._route = route
        self._delivery.connected(now)


def _check_descriptors(some: int) -> None:
    """Raises ``OSError`` unless this process may open as many as a context and a socket need:
    libzmq ends the process if it gets none for a poller."""
    held: list[int] = []
    try:
        held.extend(os.dup(some) for _ in range(_DESCRIPTORS))
    finally:
        for descriptor in held:
            os.close(descriptor)
