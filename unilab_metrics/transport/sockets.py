"""Every ZeroMQ socket and every option of it.

A socket is used and closed by the thread that made it, in the process that made it. No
call here waits: sends and receives are the caller's, with ``zmq.NOBLOCK`` or a poller.
Nothing lingers: what must not be lost is in a spool or a journal, never in a socket.
libzmq leaves the file of an ipc endpoint behind, so bound sockets are closed with
:func:`close` or :func:`terminate`, which remove it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

import zmq

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport.ipc import BoundFile, exclusive_bind, ipc_path
from unilab_schema.codec import MAX_MESSAGE_BYTES

HANDSHAKE_MS = 3000
RECONNECT_MS = 100
RECONNECT_MAX_MS = 1000
BATCH_QUEUE = 16
"""Messages of up to 1 MiB per connection; small, because each may be held at both ends."""
CONTROL_QUEUE = 256
"""Small messages per connection: cursors and heads."""
REPLY_QUEUE = 8
"""Replies of up to 1 MiB per subscriber; a stopped one loses further ones and asks again."""

_bound: WeakKeyDictionary[zmq.Socket[bytes], BoundFile] = WeakKeyDictionary()


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context of one's own: one I/O thread, nothing lingers. Never shared over a fork.

    End it with :func:`terminate`.
    """
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    made.set(zmq.BLOCKY, 0)
    return made


def dealer(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """The shipper's side of ``ingest``. A send without a live peer raises ``zmq.Again``."""
    return _connect(ctx, zmq.DEALER, endpoint, send_queue=BATCH_QUEUE, receive_queue=CONTROL_QUEUE)


def request(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A subscriber's side of ``serve``. A send without a live peer raises ``zmq.Again``."""
    return _connect(ctx, zmq.DEALER, endpoint, send_queue=CONTROL_QUEUE, receive_queue=REPLY_QUEUE)


def listen(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A subscriber's side of ``announce``: every Head; a slow reader misses some."""
    made = _connect(ctx, zmq.SUB, endpoint, send_queue=CONTROL_QUEUE, receive_queue=CONTROL_QUEUE)
    made.set(zmq.SUBSCRIBE, b"")
    return made


def ingest(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where sources send their batches (ROUTER). Raises as :func:`serve` does."""
    return _bind(ctx, zmq.ROUTER, endpoint, send_queue=CONTROL_QUEUE, receive_queue=BATCH_QUEUE)


def announce(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where heads go out (XPUB). Each new subscription is received as one byte of 1, so that
    a head can be sent at once. A stopped subscriber loses heads and holds nobody up.
    Raises as :func:`serve` does."""
    return _bind(
        ctx, zmq.XPUB, endpoint, send_queue=CONTROL_QUEUE, receive_queue=CONTROL_QUEUE,
        options=((zmq.XPUB_VERBOSE, 1),),
    )  # fmt: skip


def serve(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where subscribers ask (ROUTER).

    Raises :class:`EndpointInUseError` naming the owner when somebody listens there, and
    :class:`EndpointError` when something that is no socket lies there, the path is too long
    or not private.
    """
    return _bind(ctx, zmq.ROUTER, endpoint, send_queue=REPLY_QUEUE, receive_queue=CONTROL_QUEUE)


def close(sockets: Iterable[zmq.Socket[bytes]]) -> None:
    """Close at once, dropping what was not sent; a second close does nothing. The file of a
    bound ipc endpoint is gone afterwards."""
    for made in sockets:
        bound = _bound.pop(made, None)
        if bound is not None:
            # While we still listen nobody else can have bound there.
            bound.remove()
        made.close(linger=0)


def terminate(
    ctx: zmq.Context[zmq.Socket[bytes]], sockets: Iterable[zmq.Socket[bytes]] = ()
) -> None:
    """Close the sockets as :func:`close` does and end the context; returns within
    milliseconds, whatever the peers do. Idempotent."""
    close(sockets)
    ctx.term()


def _connect(
    ctx: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    endpoint: str,
    *,
    send_queue: int,
    receive_queue: int,
) -> zmq.Socket[bytes]:
    ipc_path(endpoint)
    made = _socket(ctx, kind, send_queue, receive_queue)
    try:
        if kind == zmq.DEALER:
            # Without a peer nothing is taken; a SUB would announce its topics a poll later.
            made.set(zmq.IMMEDIATE, 1)
        made.set(zmq.RECONNECT_IVL, RECONNECT_MS)
        made.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
        made.connect(endpoint)
    except zmq.ZMQError as error:
        made.close(linger=0)
        raise EndpointError(endpoint, f"cannot be used: {error}") from error
    return made


def _bind(
    ctx: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    endpoint: str,
    *,
    send_queue: int,
    receive_queue: int,
    options: tuple[tuple[int, int], ...] = (),
) -> zmq.Socket[bytes]:
    path = ipc_path(endpoint)
    made = _socket(ctx, kind, send_queue, receive_queue)
    try:
        for option, value in options:
            made.set(option, value)
        with exclusive_bind(endpoint, path):
            made.bind(endpoint)
            _bound[made] = BoundFile.at(path)
            Path(path).chmod(0o600)
    except zmq.ZMQError as error:
        close([made])
        raise EndpointError(endpoint, f"cannot be bound: {error}") from error
    except BaseException:
        close([made])
        raise
    return made


def _socket(
    ctx: zmq.Context[zmq.Socket[bytes]], kind: int, send_queue: int, receive_queue: int
) -> zmq.Socket[bytes]:
    made = ctx.socket(kind)
    made.set(zmq.LINGER, 0)
    made.set(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    made.set(zmq.SNDHWM, send_queue)
    made.set(zmq.RCVHWM, receive_queue)
    made.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    return made
