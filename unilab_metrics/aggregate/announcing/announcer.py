"""What subscribers get: heads on XPUB, history and snapshots on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import zmq

from unilab_metrics import crash_points
from unilab_metrics.aggregate.alerting.announced import told_alerts
from unilab_metrics.aggregate.announcing.rank_table import Moment, Told, rank_values
from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.announcing.training_time import training_s
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.receiving.bus_meter import BusMeter
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_metrics.aggregate.writers import Writers
from unilab_metrics.storage.console_pieces import console_piece
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.path_text import shown_path
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.sockets import receive
from unilab_schema.codec import (
    MAX_MESSAGE_BYTES,
    FrameDecodeError,
    decode_request,
    encode_message,
)
from unilab_schema.control import Head
from unilab_schema.requests import Console, Fetch, History, Latest, Ranks, Reply

_HEAD_INTERVAL_NS = 1_000_000_000
_JOIN_INTERVAL_NS = 20_000_000
_MAX_REQUESTS = 64
_SERVE_NS = 10_000_000
"""What one turn does for subscribers, so that a flood of them cannot keep the input waiting."""
_MAX_SUBSCRIPTIONS = 2048
_MAX_TOPIC_BYTES = 256 * 1024
"""Of topics that nobody announces; libzmq keeps up to a hundred bytes for each."""
_MAX_SHOWN_SOURCES = 1024
_ANSWERS = ("ranks", "console")
_MAX_HEAD_BYTES = MAX_MESSAGE_BYTES // 2
_SUBSCRIPTIONS = frozenset([b"\x00", b"\x01"])
"""Off and on, for all topics: all that a subscriber of ours ever says."""


class Announcer:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        core: Core,
        peers: Mapping[int, Peer],
        *,
        endpoints: Endpoints,
        run_dir: Path,
        writers: Writers,
        meter: BusMeter,
    ) -> None:
        self._core = core
        self._peers = peers
        self._endpoints = endpoints
        self._announce = endpoints.sockets.announce
        self._ask = endpoints.sockets.fetch
        self._run_dir = run_dir
        self._server = Server(core.journal)
        self._writers = writers
        self._meter = meter
        self._began_mono_ns = time.monotonic_ns()
        self._told: tuple[int, int] = (-1, -1)
        self._told_mono_ns = 0
        self._joined = False
        self._topic_bytes = 0
        self._boot_id = boot_id()
        self.bad_messages = 0
        """What came to either socket and was nothing that a subscriber says."""
        self.webhook_trouble: Callable[[], str] = str
        """What could not be delivered of the alerts."""

    def serve(self) -> None:
        """Note new subscriptions and answer requests, as many as one turn may."""
        end = time.monotonic_ns() + _SERVE_NS
        self._heed_subscriptions()
        for _ in range(_MAX_REQUESTS):
            try:
                parts, user = receive(self._ask)
            except zmq.Again:
                return
            if len(parts) != 2:
                self.bad_messages += 1
            elif (reply := self._reply(parts[1], user)) is not None:
                self._send(parts[0], reply)
            if time.monotonic_ns() > end:
                return

    def _heed_subscriptions(self) -> None:
        for _ in range(_MAX_SUBSCRIPTIONS):
            try:
                said = self._announce.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            if said in _SUBSCRIPTIONS:
                self._joined = True
            else:
                self.bad_messages += 1
                self._topic_bytes += len(said)
        if self._topic_bytes > _MAX_TOPIC_BYTES:
            self._topic_bytes = 0
            self._endpoints.forget_topics()

    def announce(self, *, force: bool = False) -> None:
        """Send a head if there is news, if somebody joined, or if a second has passed."""
        core = self._core
        now = time.monotonic_ns()
        news = (core.journal.committed_update, core.durable_update)
        due = now - self._told_mono_ns >= _HEAD_INTERVAL_NS
        joined = self._joined and now - self._told_mono_ns >= _JOIN_INTERVAL_NS
        if not (force or due or joined or news != self._told):
            return
        self._told, self._told_mono_ns, self._joined = news, now, False
        core.state.recent_frames.look(now)
        try:
            self._announce.send(self._encoded_head(now), zmq.NOBLOCK)
        except zmq.ZMQError:
            return
        if crash_points.armed:
            crash_points.reach("aggregator.announced")

    def _encoded_head(self, now: int) -> bytes:
        head = self._head(now)
        encoded = encode_message(head)
        while len(encoded) > _MAX_HEAD_BYTES and head.sources:
            # Names can be long; a message beyond its limit would cut every subscriber off.
            head = msgspec.structs.replace(head, sources=head.sources[: len(head.sources) // 2])
            encoded = encode_message(head)
        return encoded

    def _head(self, now: int) -> Head:
        data = self._core.state.data
        # An end that is not in the files, because the disk is full, is none yet.
        is_committed = self._core.journal.committed_update + 1 >= data.next_update
        told = self._told_sources(now, _MAX_SHOWN_SOURCES)
        return Head(
            self._core.epoch,
            self._core.journal.committed_update,
            self._core.durable_update,
            data.attempt,
            data.run,
            shown_path(self._run_dir),
            tuple(one.status for one in told),
            self._writers.statuses(),
            now,
            time.time_ns(),
            data.ended if is_committed else None,
            data.late_values,
            data.quarantined,
            uptime_s=(now - self._began_mono_ns) / 1e9,
            bad_messages=data.bad_messages + self._meter.untold_bad_messages,
            journal_full=self._core.problem,
            refused_connections=self._endpoints.refused_total,
            fetch_port=self._endpoints.tcp.fetch_port,
            answers=_ANSWERS,
            alerts=told_alerts(data.alerts),
            alerts_open=len(data.alerts.open),
            alert_webhook=self.webhook_trouble(),
            node=self._meter.untold_node(now),
            training_s=self._training_s(now),
            first_iteration=data.first_iteration,
            best_mean_reward=data.best_mean_reward,
            earlier_s=data.earlier_elapsed_s,
            attempt_iteration=data.attempt_iteration,
        )

    def _training_s(self, now: int) -> float:
        def frame_age_s(index: int) -> float | None:
            peer = self._peers.get(index)
            heard = None if peer is None else peer.frame_mono_ns
            return None if heard is None else max(now - heard, 0) / 1e9

        return training_s(self._core.state.data, now, self._boot_id, frame_age_s)

    def _told_sources(self, now: int, most: int | None = None) -> list[Told]:
        """The newest process of each place in this attempt, in their order."""
        data = self._core.state.data
        newest: dict[tuple[int, str, int], int] = {}
        for source in data.sources:
            if source.attempt == data.attempt:
                key = source.identity.key
                newest[key.rank, key.role, key.instance] = source.index
        shown = [data.sources[index] for _, index in sorted(newest.items())[:most]]
        return [
            Told(source, source_status(source, self._peers.get(source.index) or Peer(), now))
            for source in shown
        ]

    def _reply(self, data: bytes, user: str) -> Reply | None:
        try:
            request = decode_request(data)
        except FrameDecodeError:
            self.bad_messages += 1
            return None
        if isinstance(request, Fetch):
            return self._server.updates(request)
        if isinstance(request, Latest):
            return self._server.snapshot(request.request)
        if isinstance(request, History):
            return self._core.blocks.history(request)
        if isinstance(request, Ranks):
            now = time.monotonic_ns()
            self._core.state.recent_frames.asked(now)
            moment = Moment(self._core.epoch, now, self._boot_id)
            return rank_values(self._core.state, request, self._told_sources(now), moment)
        if isinstance(request, Console):
            return console_piece(self._run_dir, request)
        if self._endpoints.may_report(user):
            self._writers.take(request.status)
        return None

    def _send(self, routing_id: bytes, reply: Reply) -> None:
        try:
            self._ask.send_multipart([routing_id, encode_message(reply)], zmq.NOBLOCK)
        except zmq.ZMQError:
            # A stopped subscriber's queue is full; it asks again from its cursor.
            return
