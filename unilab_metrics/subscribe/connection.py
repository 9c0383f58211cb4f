"""A subscriber's two sockets to one life of the aggregator."""

from __future__ import annotations

from typing import NamedTuple

import zmq

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport import sockets
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import FrameDecodeError, decode_head, decode_reply, encode_message
from unilab_schema.control import PROTOCOL_VERSION, Fetch, Head, Latest, Reply

_MAX_DRAIN = 256


class Received(NamedTuple):
    """What had arrived, each in order."""

    heads: list[Head]
    replies: list[Reply]


class BusConnection:
    """Listens to heads and asks for history. Owned by one thread; nothing here waits but
    :meth:`wait`."""

    def __init__(self, file: ConnectionFile) -> None:
        """Raises :class:`EndpointError`. A peer that is not there is no error."""
        self.file = file
        self.malformed = 0
        self._context = sockets.context()
        made: list[zmq.Socket[bytes]] = []
        try:
            made.append(sockets.listen(self._context, file.announce))
            made.append(sockets.request(self._context, file.fetch))
        except BaseException:
            sockets.terminate(self._context, made)
            raise
        self._heads, self._requests = made
        self._poller = zmq.Poller()
        for one in made:
            self._poller.register(one, zmq.POLLIN)

    def wait(self, timeout_ms: float) -> bool:
        """Whether something arrived within ``timeout_ms``."""
        return bool(self._poller.poll(max(0, round(timeout_ms))))

    def ask(self, message: Fetch | Latest) -> bool:
        """Send a request; False while the aggregator is not there, or does not take more."""
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
        for data in self._drain(self._heads, self.file.announce):
            try:
                received.heads.append(decode_head(data))
            except FrameDecodeError:
                self.malformed += 1
        for data in self._drain(self._requests, self.file.fetch):
            try:
                received.replies.append(decode_reply(data))
            except FrameDecodeError:
                self.malformed += 1
        return received

    def close(self) -> None:
        """Idempotent."""
        sockets.terminate(self._context, (self._heads, self._requests))

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
