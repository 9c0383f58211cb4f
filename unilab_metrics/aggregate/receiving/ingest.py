"""The sources' socket: Hello and Batch in, Cursor and Reject out."""

from __future__ import annotations

import time
from collections.abc import Callable

import zmq

from unilab_metrics import crash_points
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.limits import TOO_MANY_RUN_TAGS
from unilab_metrics.aggregate.folding.pacing import must_wait
from unilab_metrics.aggregate.folding.reduction import MAX_RUN_TAGS
from unilab_metrics.aggregate.folding.refused_frames import refused_of
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.admitting import Admitting
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import Admission, IsDead, returned
from unilab_metrics.aggregate.receiving.refusals import Refusals
from unilab_metrics.storage.orphans import has_ended_here
from unilab_metrics.transport.authentication import IPC_USER
from unilab_metrics.transport.sockets import receive
from unilab_schema.codec import FrameDecodeError, decode_upward, encode_message
from unilab_schema.control import Batch, Cursor, Hello, Reject

WINDOW_FRAMES = 512
_DRAIN_MESSAGES = 512
_DRAIN_NS = 20_000_000
MOST_RECORDS = 4 * WINDOW_FRAMES
"""Taken from one batch: a source that ignores its window must not hold the others up."""
_MAX_TEXT = 512
_OVER_IPC = frozenset(["", IPC_USER])
_NOT_ALLOWED = Reject(
    "not_allowed", "the run's allow-list does not let this key publish as this rank"
)


def _at_once(admission: Admission, mono_ns: int) -> Admission:
    del mono_ns
    return admission


class Ingest:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        core: Core,
        socket: zmq.Socket[bytes],
        *,
        is_dead: IsDead,
        vacate: Callable[[SourceState], None],
        may_publish: Callable[[str, int], bool] = lambda _user, _rank: True,
        hold: Callable[[Admission, int], Admission] = _at_once,
        adopt_orphans: Callable[[], object] = bool,
        awaited: Callable[[], str] = str,
    ) -> None:
        """``is_dead``, ``vacate``, ``hold``, ``adopt_orphans``: as of :class:`Admitting`.
        ``may_publish``: whether a user of the socket may speak for a source of a rank.
        ``awaited``: what the end of the run waits for."""
        self._core = core
        self._socket = socket
        self._may_publish = may_publish
        self._awaited = awaited
        self._started_mono_ns = time.monotonic_ns()
        self.peers: dict[int, Peer] = {}
        self.bad_messages = 0
        self._admitting = Admitting(core, self.peers, is_dead, vacate, hold, adopt_orphans)
        self._routes: dict[bytes, int] = {}
        self._knows_of_refused_tags = core.state.columns.refused > 0
        self._refusals = Refusals()
        self.is_closing = False
        """Whether new sources are left to the next aggregator."""
        self.is_closed = False

    def peer(self, source: SourceState) -> Peer:
        """The connection of a source; one that was never heard counts from now."""
        known = self.peers.get(source.index)
        if known is None:
            known = self.peers[source.index] = Peer(heard_mono_ns=time.monotonic_ns())
        return known

    def drain(self) -> bool:
        """Take what has arrived, up to a bound. True when more may be waiting."""
        has_more = self._drain()
        self._say_limits()
        return has_more

    def _say_limits(self) -> None:
        """Once: that some tags are missing from now on."""
        if self._knows_of_refused_tags or not self._core.state.columns.refused:
            return
        self._knows_of_refused_tags = True
        text = (
            f"the run has {MAX_RUN_TAGS:,} different tags, or 8 MiB of names: new ones are refused, "
            f"and their values are counted as dropped ({TOO_MANY_RUN_TAGS})"
        )
        say(text)
        self._core.notice("warning", text)

    def _drain(self) -> bool:
        end = time.monotonic_ns() + _DRAIN_NS
        for _ in range(_DRAIN_MESSAGES):
            try:
                parts, user = receive(self._socket)
            except zmq.Again:
                return False
            self._take(parts, user)
            if time.monotonic_ns() > end:
                return True
        return True

    def _take(self, parts: list[bytes], user: str) -> None:
        if len(parts) != 2:
            self._count_bad(parts[0])
            return
        try:
            message = decode_upward(parts[1])
        except FrameDecodeError as error:
            self._count_bad(parts[0])
            self._refuse(parts[0], Reject("bad_message", str(error)[:_MAX_TEXT]))
            return
        if isinstance(message, Hello):
            self._take_hello(parts[0], message, user)
        else:
            self._take_batch(parts[0], message, user)

    def _count_bad(self, routing_id: bytes) -> None:
        self.bad_messages += 1
        source = self._routes.get(routing_id)
        if source is not None:
            peer = self.peers[source]
            peer.bad_messages += 1
            peer.has_news = True

    def answer(self) -> None:
        """Send the cursors that are owed. They never speak of what is not committed."""
        core = self._core
        for source in core.state.data.sources:
            peer = self.peers.get(source.index)
            if peer is None or not peer.routing_id:
                continue
            durable = core.durable_cursor(source.index)
            takes_again = peer.was_refused and self._takes_from(source)
            if not (peer.must_answer or takes_again) and durable == peer.told_durable:
                continue
            self._send(peer.routing_id, self._cursor(source, peer.must_rewind or takes_again))
            peer.must_answer = peer.must_rewind = False
            peer.was_refused = peer.was_refused and not takes_again
            peer.told_durable = durable

    def tell_left_out(self, unheard: list[str]) -> None:
        """The run ends: as :meth:`Admitting.tell_left_out`."""
        self._admitting.tell_left_out(unheard)

    def say_closed(self) -> None:
        """Tell every source that the run has ended and its backends are complete."""
        self.is_closed = True
        for peer in self.peers.values():
            peer.must_answer = True
        self.answer()

    def _cursor(self, source: SourceState, rewind: bool) -> Cursor:
        return Cursor(
            self._core.epoch,
            self._core.committed_cursor(source.index),
            self._core.durable_cursor(source.index),
            WINDOW_FRAMES,
            time.monotonic_ns(),
            time.time_ns(),
            rewind,
            self.is_closed,
            self._core.problem,
            self._awaited() if source.status == "finished" and not self.is_closed else "",
            refused_of(source),
        )

    def _take_hello(self, routing_id: bytes, hello: Hello, user: str) -> None:
        if not self._may_publish(user, hello.identity.key.rank):
            self._refuse(routing_id, _NOT_ALLOWED)
            return
        refusal = self._admitting.admit(hello, is_closing=self.is_closing)
        if refusal is not None:
            self._refuse(routing_id, refusal)
            return
        source = self._core.state.source_of(hello.identity.incarnation)
        if source is None:
            return
        peer = self._connected(source, routing_id, user)
        peer.hello_last = hello.last
        peer.adopted_upto = hello.last if hello.adopted else None
        self._heard(source, peer, hello.unix_ns)
        peer.must_answer = True

    def _take_batch(self, routing_id: bytes, batch: Batch, user: str) -> None:
        core = self._core
        source = core.state.source_of(batch.incarnation)
        if source is None:
            unknown = Reject("unknown_source", "say Hello first", retry_after_s=0.0)
            self._refuse(routing_id, unknown)
            return
        if not self._may_publish(user, source.identity.key.rank):
            self._refuse(routing_id, _NOT_ALLOWED)
            return
        peer = self._connected(source, routing_id, user)
        self._heard(source, peer, batch.unix_ns)
        if peer.take(batch, source):
            core.decider.excuse(source.index)
        if not self._takes_from(source):
            peer.was_refused = True
            return
        accepted = accept(source, batch.records, batch.watermark_mono_ns, most=MOST_RECORDS)
        peer.duplicates += accepted.duplicates
        if accepted.is_damaged:
            self._count_bad(routing_id)
        if accepted.entry is not None:
            if crash_points.armed:
                crash_points.reach("aggregator.received")
            peer.frame_mono_ns = peer.heard_mono_ns
            core.fold(accepted.entry, accepted.records)
        if accepted.rewind:
            peer.must_rewind = peer.may_rewind(source.cursor, peer.heard_mono_ns)
        elif accepted.entry is None:
            # A ping changes no numbers, so its watermark need not be in the wal.
            source.raise_watermark(batch.watermark_mono_ns)

    def _takes_from(self, source: SourceState) -> bool:
        """Whether its frames are taken now; otherwise they stay in its spool."""
        if not self._core.accepts_input or (self.is_closing and source.status == "lost"):
            # The end is written, and the backends are about to be complete.
            return False
        now, started = time.monotonic_ns(), self._started_mono_ns
        return not must_wait(self._core.state, self.peers, source, now, started)

    def _connected(self, source: SourceState, routing_id: bytes, user: str) -> Peer:
        peer = self.peer(source)
        peer.is_over_tcp = user not in _OVER_IPC
        if peer.routing_id != routing_id:
            self._routes.pop(peer.routing_id, None)
            self._routes[routing_id] = source.index
            peer.routing_id = routing_id
        return peer

    def _refuse(self, routing_id: bytes, refusal: Reject) -> None:
        if self._refusals.may_answer(routing_id, refusal.code, time.monotonic_ns()):
            self._send(routing_id, refusal)

    def _heard(self, source: SourceState, peer: Peer, sent_unix_ns: int) -> None:
        now = time.monotonic_ns()
        silent_s = (now - peer.heard_mono_ns) / 1e9
        state, last = self._core.state, peer.hello_last
        back = returned(state, source, silent_s, time.time_ns(), now, hello_last=last)
        # What a killed process has said last may come after the news of its death.
        is_ghost = not source.is_double and has_ended_here(source.identity) if back else False
        if back is not None and not is_ghost and peer.adopted_upto is None and not self.is_closing:
            say(back.text)
            self._core.fold(back)
        peer.heard_mono_ns = now
        self._core.decider.heard(source.index, peer.heard_mono_ns)
        peer.skew.heard(sent_unix_ns, time.time_ns(), now)

    def _send(self, routing_id: bytes, message: Cursor | Reject) -> None:
        try:
            self._socket.send_multipart([routing_id, encode_message(message)], zmq.NOBLOCK)
        except zmq.ZMQError:
            # A slow or vanished peer: its next ping is answered.
            return
