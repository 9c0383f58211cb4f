"""Every ZeroMQ socket and every option of it.

A socket is used and closed by the thread that made it, in the process that made it. No
call here waits: sends and receives are the caller's, with ``zmq.NOBLOCK`` or a poller.
Nothing lingers: what must not be lost is in a spool or a journal, never in a socket.
TCP is only ever spoken with CURVE: there is no call here that could do without.
libzmq leaves the file of an ipc endpoint behind, so bound sockets are closed with
:func:`close` or :func:`terminate`, which remove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

import zmq

from unilab_metrics.errors import EndpointError, EndpointInUseError
from unilab_metrics.transport.addresses import TcpAddress, parse_tcp
from unilab_metrics.transport.crowd import BACKLOG
from unilab_metrics.transport.ipc import BoundFile, exclusive_bind, ipc_path
from unilab_metrics.transport.keys import CurveClient, CurveServer
from unilab_schema.codec import MAX_MESSAGE_BYTES

INGEST_DOMAIN = b"ingest"
ANNOUNCE_DOMAIN = b"announce"
FETCH_DOMAIN = b"fetch"
"""ZAP domains: each socket says by its own which use a key must have."""
HANDSHAKE_MS = 3000
RECONNECT_MS = 100
RECONNECT_MAX_MS = 1000
BATCH_QUEUE = 16
"""Messages of up to 1 MiB per connection; small, because each may be held at both ends."""
CONTROL_QUEUE = 256
"""Small messages per connection: cursors and heads."""
MAX_SUBSCRIPTION_BYTES = 4096
"""Of what subscribers say at ``announce``: libzmq remembers every topic byte by byte."""
REPLY_QUEUE = 8
"""Replies of up to 1 MiB per subscriber; a stopped one loses further ones and asks again."""

TCP_ASK_S = 1
TCP_GONE_MS = 3000
"""Over TCP the system asks a silent peer that often, and gives a connection up over which nothing
has been acknowledged for so long: a host that has vanished says nothing, and its connection would
stay for a quarter of an hour. Peers answer however busy their processes are. Not by libzmq's
heartbeats: where a peer goes while what it has sent still waits for a reader, they abort the
process of the reader (4.3.5)."""
CONNECT_TIMEOUT_MS = 2000
"""The system itself would try a host that does not answer less and less often."""

_bound: WeakKeyDictionary[zmq.Socket[bytes], BoundFile] = WeakKeyDictionary()

BeforeConnecting = Callable[["zmq.Socket[bytes]"], object]


def _nothing(made: zmq.Socket[bytes]) -> None:
    del made


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context of one's own: one I/O thread, nothing lingers. Never shared over a fork.

    End it with :func:`terminate`.
    """
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    made.set(zmq.BLOCKY, 0)
    return made


def dealer(
    ctx: zmq.Context[zmq.Socket[bytes]],
    endpoint: str,
    curve: CurveClient | None = None,
    before: BeforeConnecting = _nothing,
) -> zmq.Socket[bytes]:
    """The shipper's side of ``ingest``. A send without a live peer raises ``zmq.Again``.
    ``curve``: the keys, for TCP; :class:`EndpointError` without. ``before``: called with the
    socket before it connects, for a monitor that is to see everything."""
    return _connect(
        ctx, zmq.DEALER, endpoint, curve, before,
        send_queue=BATCH_QUEUE, receive_queue=CONTROL_QUEUE,
    )  # fmt: skip


def request(
    ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str, curve: CurveClient | None = None
) -> zmq.Socket[bytes]:
    """A subscriber's side of ``serve``. A send without a live peer raises ``zmq.Again``.
    ``curve``: as in :func:`dealer`."""
    return _connect(
        ctx, zmq.DEALER, endpoint, curve, _nothing,
        send_queue=CONTROL_QUEUE, receive_queue=REPLY_QUEUE,
    )  # fmt: skip


def listen(
    ctx: zmq.Context[zmq.Socket[bytes]],
    endpoint: str,
    curve: CurveClient | None = None,
    before: BeforeConnecting = _nothing,
) -> zmq.Socket[bytes]:
    """A subscriber's side of ``announce``: every Head; a slow reader misses some.
    ``curve``, ``before``: as in :func:`dealer`."""
    made = _connect(
        ctx, zmq.SUB, endpoint, curve, before,
        send_queue=CONTROL_QUEUE, receive_queue=CONTROL_QUEUE,
    )  # fmt: skip
    made.set(zmq.SUBSCRIBE, b"")
    return made


def ingest(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where sources send their batches (ROUTER). Raises as :func:`serve` does."""
    return _bind(
        ctx, zmq.ROUTER, endpoint, INGEST_DOMAIN,
        send_queue=CONTROL_QUEUE, receive_queue=BATCH_QUEUE,
    )  # fmt: skip


def announce(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where heads go out (XPUB). Each new subscription is received as one byte of 1, so that
    a head can be sent at once. A stopped subscriber loses heads and holds nobody up.
    Raises as :func:`serve` does."""
    return _bind(
        ctx, zmq.XPUB, endpoint, ANNOUNCE_DOMAIN,
        send_queue=CONTROL_QUEUE, receive_queue=CONTROL_QUEUE,
        options=((zmq.XPUB_VERBOSE, 1), (zmq.MAXMSGSIZE, MAX_SUBSCRIPTION_BYTES)),
    )  # fmt: skip


def serve(ctx: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """Where subscribers ask (ROUTER).

    Raises :class:`EndpointInUseError` naming the owner when somebody listens there, and
    :class:`EndpointError` when something that is no socket lies there, the path is too long
    or not private.
    """
    return _bind(
        ctx, zmq.ROUTER, endpoint, FETCH_DOMAIN,
        send_queue=REPLY_QUEUE, receive_queue=CONTROL_QUEUE,
    )  # fmt: skip


def bind_tcp(made: zmq.Socket[bytes], address: TcpAddress, curve: CurveServer) -> TcpAddress:
    """Let a socket of ours listen on TCP too, with CURVE; the address that it got.

    Raises :class:`EndpointInUseError` for a port that is taken, :class:`EndpointError` for an
    address that is not this node's.
    """
    made.set(zmq.CURVE_SECRETKEY, curve.secret.encode("ascii"))
    made.set(zmq.CURVE_SERVER, 1)
    # A listener has the options of when it was bound: these are not those of ipc.
    _notice_silence(made)
    made.set(zmq.BACKLOG, BACKLOG)
    if address.is_ipv6:
        made.set(zmq.IPV6, 1)
    try:
        made.bind(address.endpoint)
    except zmq.ZMQError as error:
        if error.errno == zmq.EADDRINUSE:
            raise EndpointInUseError(address.endpoint, None) from error
        raise EndpointError(address.endpoint, f"cannot be bound: {error}") from error
    return parse_tcp(bytes(made.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode("ascii"))


def unbind_tcp(made: zmq.Socket[bytes], address: TcpAddress) -> None:
    """Listen no more where :func:`bind_tcp` said, and cut off all that came that way."""
    try:
        made.unbind(address.endpoint)
    except zmq.ZMQError as error:
        raise EndpointError(address.endpoint, f"cannot be unbound: {error}") from error


def receive(made: zmq.Socket[bytes]) -> tuple[list[bytes], str]:
    """What lies at a bound socket, and the user that authentication has given its connection;
    empty if nobody was asked. Raises ``zmq.Again`` if there is nothing."""
    frames = made.recv_multipart(zmq.NOBLOCK, copy=False)
    try:
        user = frames[-1].get("User-Id")
    except zmq.ZMQError:
        user = ""
    return [frame.bytes for frame in frames], str(user)


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
    curve: CurveClient | None,
    before: BeforeConnecting,
    *,
    send_queue: int,
    receive_queue: int,
) -> zmq.Socket[bytes]:
    if endpoint.startswith("tcp:"):
        is_ipv6 = parse_tcp(endpoint).is_ipv6
        if curve is None:
            raise EndpointError(endpoint, "needs a key: TCP is only spoken with CURVE")
    else:
        ipc_path(endpoint)
        is_ipv6, curve = False, None
    made = _socket(ctx, kind, send_queue, receive_queue)
    try:
        if curve is not None:
            made.set(zmq.CURVE_SERVERKEY, curve.server.encode("ascii"))
            made.set(zmq.CURVE_PUBLICKEY, curve.public.encode("ascii"))
            made.set(zmq.CURVE_SECRETKEY, curve.secret.encode("ascii"))
            made.set(zmq.CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS)
            _notice_silence(made)
        if is_ipv6:
            made.set(zmq.IPV6, 1)
        if kind == zmq.DEALER:
            # Without a peer nothing is taken; a SUB would announce its topics a poll later.
            made.set(zmq.IMMEDIATE, 1)
        made.set(zmq.RECONNECT_IVL, RECONNECT_MS)
        made.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
        before(made)
        made.connect(endpoint)
    except zmq.ZMQError as error:
        made.close(linger=0)
        raise EndpointError(endpoint, f"cannot be used: {error}") from error
    return made


def _notice_silence(made: zmq.Socket[bytes]) -> None:
    made.set(zmq.TCP_KEEPALIVE, 1)
    made.set(zmq.TCP_KEEPALIVE_IDLE, TCP_ASK_S)
    made.set(zmq.TCP_KEEPALIVE_INTVL, TCP_ASK_S)
    made.set(zmq.TCP_KEEPALIVE_CNT, TCP_GONE_MS // (1000 * TCP_ASK_S))
    made.set(zmq.TCP_MAXRT, TCP_GONE_MS)


def _bind(
    ctx: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    endpoint: str,
    domain: bytes,
    *,
    send_queue: int,
    receive_queue: int,
    options: tuple[tuple[int, int], ...] = (),
) -> zmq.Socket[bytes]:
    path = ipc_path(endpoint)
    made = _socket(ctx, kind, send_queue, receive_queue)
    try:
        # With a domain, libzmq asks the handler of the context also about ipc peers, and
        # refuses everybody who speaks a ZMTP that is too old to be asked about.
        made.set(zmq.ZAP_DOMAIN, domain)
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
