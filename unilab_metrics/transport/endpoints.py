"""The aggregator's sockets and everything at their doors: who asks, who is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import zmq

from unilab_metrics.errors import EndpointError, StorageError
from unilab_metrics.transport import crowd, monitoring, sockets
from unilab_metrics.transport.authentication import IPC_USER, Authenticator
from unilab_metrics.transport.crowd import Crowd
from unilab_metrics.transport.memory_bound import MemoryBound
from unilab_metrics.transport.monitoring import Happening, Monitor
from unilab_metrics.transport.refusals import Refusals
from unilab_metrics.transport.tcp_door import BoundSockets, TcpDoor, TcpEndpoints

RANK_NOT_ALLOWED = "its key is not for this rank"
NOT_A_WRITER = "it tells what a backend holds, which only a writer may"
_WRONG_KEY = "its handshake is for another run's key, or no handshake at all"
_NO_CURVE = "it does not speak CURVE"
_NO_ZMTP = "it does not speak the protocol"
NO_TOPICS = "it subscribes to topics, of which there are none; watchers over TCP connect anew"
TOO_MUCH = "somebody fills the memory with unfinished messages; all over TCP connect anew"
TOO_MANY = "there are too many connections"
_BROKEN_OFF = "it broke off the handshake, or was too slow"
_NO_TCP = TcpEndpoints("", "", "", "")


class Endpoints:
    """Owned by the aggregator's main thread; :meth:`attend` belongs into each turn of its loop.

    ``ipc``: the endpoints on this node; ``tcp``: for others, empty texts if there are none.
    ``problem``: why there are none although they were asked for.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        stem: str,
        bus_dir: Path,
        *,
        bind: str = "",
        towards: str = "",
        say: Callable[[str], None],
        memory: MemoryBound | None = None,
    ) -> None:
        """``stem``: of the ipc endpoints. ``bind``: empty for no TCP, else see
        :class:`TcpDoor`, as for ``towards``. Raises :class:`EndpointError` for ipc only."""
        self._refusals = Refusals(say)
        self.ipc = TcpEndpoints(f"{stem}.in", f"{stem}.out", f"{stem}.ask", "")
        self._crowd = Crowd(self.ipc[:3], crowd.capacity(crowd.descriptor_limit()))
        self._memory = memory or MemoryBound()
        self._door: TcpDoor | None = None
        self._monitors: list[Monitor] = []
        self._opened: list[zmq.Socket[bytes]] = []
        self._authenticator = Authenticator(context, self._refusals)
        self.tcp = _NO_TCP
        self.problem = ""
        try:
            for make, endpoint in (
                (sockets.ingest, self.ipc.ingest),
                (sockets.announce, self.ipc.announce),
                (sockets.serve, self.ipc.fetch),
            ):
                self._opened.append(make(context, endpoint))
            self.sockets = BoundSockets(*self._opened)
            self._monitors += [
                Monitor(context, made, monitoring.FAILURES | crowd.WATCHED) for made in self._opened
            ]
            if bind:
                self._open_door(bus_dir, bind, towards, say)
        except BaseException:
            self.close()
            raise

    @property
    def refused(self) -> Mapping[str, int]:
        """Refused connections and messages by reason."""
        return self._refusals.counts

    @property
    def refused_total(self) -> int:
        """Of all reasons."""
        return self._refusals.total

    def register(self, poller: zmq.Poller) -> None:
        """Everything that this one wants to be woken by."""
        for made in (
            *self._opened,
            self._authenticator.socket,
            *(monitor.socket for monitor in self._monitors),
        ):
            poller.register(made, zmq.POLLIN)

    def attend(self) -> None:
        """Answer who wants to come in, count who did not get in, heed the allow-list."""
        is_asked = self._authenticator.is_asked
        if self._door is not None:
            self._authenticator.allowed = self._door.look(at_once=is_asked)
            if self._memory.is_exceeded(time.monotonic()):
                self._refusals.note("a peer over TCP", TOO_MUCH, time.monotonic())
                self._door.cut_off()
        if is_asked:
            # Who asks after that look is for the next turn: the list may be older than his key.
            self._authenticator.answer()
        for monitor in self._monitors:
            for happening in monitor.take():
                self._heed(happening)

    def _heed(self, happening: Happening) -> None:
        is_tcp = happening.endpoint.startswith("tcp:")
        peer = "a peer over TCP" if is_tcp else "a peer over ipc"
        if not self._crowd.heed(happening):
            self._refusals.note(peer, TOO_MANY, time.monotonic())
        is_failure = happening.kind == monitoring.NO_PROTOCOL
        # Over ipc those are our own looks at whether somebody listens.
        if is_failure or (happening.kind == monitoring.BROKEN_OFF and is_tcp):
            self._refusals.note(peer, _reason(happening), time.monotonic())

    def may_publish(self, user: str, rank: int) -> bool:
        """Whether a message of this user may speak for a source of this rank; counted if
        not."""
        if self._authenticator.may_publish(user, rank):
            return True
        reason = f"{RANK_NOT_ALLOWED} ({rank})" if rank >= 0 else RANK_NOT_ALLOWED
        self._refusals.note(f"key {user}", reason, time.monotonic())
        return False

    def announced_ranks(self) -> frozenset[int]:
        """Ranks that have a key of their own on the allow-list, wherever they are."""
        publishing = (grant.ranks for grant in self._authenticator.allowed.grants.values())
        single = (ranks[0] for ranks in publishing if ranks is not None and len(ranks) == 1)
        return frozenset(low for low, high in single if low == high)

    def may_report(self, user: str) -> bool:
        """Whether this user may tell what a backend holds: writers run on this node, so over
        TCP nobody may, and who tries is counted."""
        if user == IPC_USER:
            return True
        self._refusals.note(f"key {user}", NOT_A_WRITER, time.monotonic())
        return False

    def forget_topics(self) -> None:
        """Somebody has subscribed to topics that do not exist, which libzmq remembers as long as
        the connection lasts: so all of ``announce`` over TCP are closed. On this node it can only
        be ourselves."""
        self._refusals.note("a watcher", NO_TOPICS, time.monotonic())
        if self._door is not None:
            self._door.cut_off(self.sockets.announce)

    def close(self) -> None:
        """Close everything; idempotent."""
        for monitor in self._monitors:
            monitor.close()
        sockets.close(self._opened)
        self._authenticator.close()

    def _open_door(
        self, bus_dir: Path, bind: str, towards: str, say: Callable[[str], None]
    ) -> None:
        try:
            self._door = TcpDoor(
                self.sockets, bus_dir, bind, crowd=self._crowd, towards=towards, say=say
            )
        except (EndpointError, StorageError, OSError) as error:
            self.problem = f"other nodes cannot reach this run: {error}"
            return
        self._authenticator.allowed = self._door.allowed
        self.tcp = self._door.endpoints


def _reason(happening: monitoring.Happening) -> str:
    if happening.kind == monitoring.BROKEN_OFF:
        return _BROKEN_OFF
    if happening.value == monitoring.WRONG_SERVER_KEY:
        return _WRONG_KEY
    return _NO_CURVE if happening.value == monitoring.OTHER_MECHANISM else _NO_ZMTP
