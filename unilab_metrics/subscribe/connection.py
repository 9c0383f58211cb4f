"""A subscriber's two sockets to one life of the aggregator."""

from __future__ import annotations

from typing import NamedTuple

import zmq

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport import diagnosis, sockets
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.diagnosis import Diagnosis, Finding
from unilab_metrics.transport.monitoring import Monitor
from unilab_metrics.transport.routes import Route
from unilab_schema.codec import FrameDecodeError, decode_head, decode_reply, encode_message
from unilab_schema.control import PROTOCOL_VERSION, Head
from unilab_schema.requests import Console, Fetch, History, Latest, Ranks, Reply

_MAX_DRAIN = 256


class Received(NamedTuple):
    """What had arrived, each in order."""

    heads: list[Head]
    replies: list[Reply]


class BusConnection:
    """Listens to heads and asks for history. Owned by one thread; nothing here waits but
    :meth:`wait`."""

    def __init__(self, route: Route) -> None:
        """Raises :class:`EndpointError`. A peer that is not there is no error."""
        self.route = route
        self.malformed = 0
        self._is_listening = False
        self._context = sockets.context()
        self._requests: zmq.Socket[bytes] | None = None
        self._monitor: Monitor | None = None
        self._diagnosis = Diagnosis()
        self._poller = zmq.Poller()
        try:
            self._heads = self._listen()
        except BaseException:
            sockets.terminate(self._context)
            raise
        try:
            self._connect_requests(route.fetch)
        except BaseException:
            self.close()
            raise

    @property
    def finding(self) -> Finding:
        """How the connection over TCP came about, or why it did not; ``WELCOME`` on ipc."""
        if self._monitor is None:
            return Finding.WELCOME
        return self._diagnosis.take(self._monitor.take())

    def wait(self, timeout_ms: float) -> bool:
        """Whether something arrived within ``timeout_ms``."""
        return bool(self._poller.poll(max(0, round(timeout_ms))))

    def ask(self, message: Fetch | Latest | History | Ranks | Console) -> bool:
        """Send a request; False while the aggregator is not there, or does not take more."""
        if self._requests is None:
            return False
        try:
            self._requests.send(encode_message(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> Received:
        """Take what has arrived. What cannot be decoded is counted in ``malformed``.

        Raises :class:`EndpointError` when the aggregator speaks another protocol version.
        """
        received = Received([], [])
        for data in self._drain(self._heads, self.route.announce):
            try:
                received.heads.append(decode_head(data))
            except FrameDecodeError:
                self.malformed += 1
        if self._requests is None:
            if received.heads:
                self._connect_requests(_beside(self.route.announce, received.heads[-1].fetch_port))
            return received
        for data in self._drain(self._requests, self.route.fetch):
            try:
                received.replies.append(decode_reply(data))
            except FrameDecodeError:
                self.malformed += 1
        return received

    def listen_anew(self) -> None:
        """Hear nothing any more of what waits on its way, and a head of now. What was asked goes
        on. Raises :class:`EndpointError`, and then hears nothing any more."""
        self._poller.unregister(self._heads)
        if self._monitor is not None:
            self._monitor.close()
        sockets.close([self._heads])
        self._heads = self._listen()

    def listen(self, *, is_wanted: bool) -> None:
        """Hear heads, or none for a while, beginning with one of now."""
        if is_wanted != self._is_listening:
            self._is_listening = is_wanted
            self._heads.set(zmq.SUBSCRIBE if is_wanted else zmq.UNSUBSCRIBE, b"")

    def close(self) -> None:
        """Idempotent."""
        if self._monitor is not None:
            self._monitor.close()
        requests = [] if self._requests is None else [self._requests]
        sockets.terminate(self._context, [self._heads, *requests])

    def _listen(self) -> zmq.Socket[bytes]:
        made = sockets.listen(self._context, self.route.announce, self.route.curve, self._watch)
        self._poller.register(made, zmq.POLLIN)
        self._is_listening = True
        return made

    def _watch(self, made: zmq.Socket[bytes]) -> None:
        if self.route.curve is not None:
            self._monitor = Monitor(self._context, made, diagnosis.WATCHED)

    def _connect_requests(self, endpoint: str) -> None:
        if endpoint:
            self._requests = sockets.request(self._context, endpoint, self.route.curve)
            self._poller.register(self._requests, zmq.POLLIN)

    def _drain(self, source: zmq.Socket[bytes], endpoint: str) -> list[bytes]:
        parts: list[bytes] = []
        while len(parts) < _MAX_DRAIN:
            try:
                part = source.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            if part and part[0] != PROTOCOL_VERSION:
                raise EndpointError(
                    endpoint,
                    f"speaks protocol version {part[0]}, this program {PROTOCOL_VERSION}",
                )
            parts.append(part)
        return parts


def _beside(endpoint: str, port: int) -> str:
    """Another port of the same host, as we know the host."""
    return parse_tcp(endpoint)._replace(port=port).endpoint if port else ""
