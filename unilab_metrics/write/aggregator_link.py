"""A writer's line to the aggregator: how far the history is durable, and how far we are.

A writer serves one life of the aggregator. When that one is gone, the next one starts
writers of its own, so the writer only finishes what the files hold.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import zmq

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport import rendezvous, sockets
from unilab_metrics.transport.allow_list import WATCH
from unilab_metrics.transport.routes import choose_route
from unilab_schema.codec import FrameDecodeError, decode_head, encode_message
from unilab_schema.control import BackendStatus, Head
from unilab_schema.requests import BackendProgress

_RETRY_S = 0.5


class AggregatorLink:
    """Owned by one thread; never raises because of what the aggregator does or sends."""

    def __init__(self, run_dir: Path, *, follow: bool = True) -> None:
        """``follow``: false counts the aggregator as gone from the start."""
        self._bus = rendezvous.bus_directory(run_dir)
        self._lease = rendezvous.aggregator_lease(run_dir)
        self._served_pid = owner_pid(self._lease) if follow else None
        self._context: zmq.Context[Any] | None = None
        self._announce: zmq.Socket[bytes] | None = None
        self._fetch: zmq.Socket[bytes] | None = None
        self._next_try_s = 0.0
        self.head: Head | None = None
        """The newest announcement."""

    @property
    def alive(self) -> bool:
        """Whether the aggregator that lived when the writer started still does."""
        return self._served_pid is not None and owner_pid(self._lease) == self._served_pid

    def wait(self, timeout_ms: int) -> None:
        """Until the aggregator announces something, at most ``timeout_ms``."""
        self._connect()
        if self._announce is None:
            time.sleep(timeout_ms / 1000)
            return
        if not self._announce.poll(timeout_ms):
            return
        with contextlib.suppress(zmq.Again):
            while True:
                data = self._announce.recv(zmq.NOBLOCK)
                with contextlib.suppress(FrameDecodeError):
                    self.head = decode_head(data)

    def report(self, status: BackendStatus) -> None:
        """Tell the aggregator; dropped if it does not listen."""
        self._connect()
        if self._fetch is not None:
            with contextlib.suppress(zmq.Again):
                self._fetch.send(encode_message(BackendProgress(status)), zmq.NOBLOCK)

    def close(self) -> None:
        """Drops what was not sent; a second call does nothing."""
        if self._context is not None:
            sockets.terminate(
                self._context, [made for made in (self._announce, self._fetch) if made is not None]
            )
        self._context = self._announce = self._fetch = None

    def _connect(self) -> None:
        now_s = time.monotonic()
        if self._announce is not None or not self.alive or now_s < self._next_try_s:
            return
        self._next_try_s = now_s + _RETRY_S
        try:
            connection = rendezvous.read(self._bus)
            if connection.pid != self._served_pid and self._served_pid:
                return
            route = choose_route(connection, self._bus, WATCH)
            self._context = self._context or sockets.context()
            self._fetch = sockets.request(self._context, route.fetch, route.curve)
            self._announce = sockets.listen(self._context, route.announce, route.curve)
        except UnilabMetricsError:
            # Not there yet, or on its way out: the lease decides about life.
            return
