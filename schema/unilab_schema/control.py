"""Messages between processes: tagged msgpack arrays, one ZeroMQ part each.

Up (source to aggregator): :class:`Hello`, :class:`Batch`. Down: :class:`Cursor`,
:class:`Reject`. To subscribers: :class:`Head` on XPUB; what they ask for is in
:mod:`unilab_schema.requests`.
"""

from __future__ import annotations

import msgspec

from unilab_schema.alerts import AlertStatus
from unilab_schema.identity import Identity, RunInfo, SourceKey

PROTOCOL_VERSION = 1
"""First byte of every message; a receiver refuses versions that it does not know."""


class Epoch(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One life of an aggregator over one journal: 16 random bytes and a counter."""

    journal: bytes
    counter: int


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """First message of a connection. ``first``: the oldest sequence the spool still holds.

    ``adopted``: the source's process is dead, nothing follows ``last``, and another process of
    its node speaks for it.
    """

    identity: Identity
    first: int
    last: int
    mono_ns: int
    unix_ns: int
    adopted: bool = False


class SourceFigures(msgspec.Struct, frozen=True, array_like=True):
    """What a source measures of its own publishing.

    ``backlog``: frames logged and not known to be journaled. ``log_calls`` and ``log_ns``: calls
    of ``log()`` and the time inside them, since the start. ``ack_latency_ms``: the longest of
    the last second or two from an append to the Cursor that covers it; ``None`` without any.
    """

    backlog: int
    log_calls: int
    log_ns: int
    ack_latency_ms: float | None = None


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """A process of ours on the same node, by its identity."""

    incarnation: bytes
    key: SourceKey
    pid: int


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch"):
    """Spool records verbatim; empty = ping.

    ``watermark_mono_ns``: every frame stamped before it has been sent, this batch included.
    ``drops``: frames that the source could not log, by reason, since it started.
    ``troubles``: what it has met and lost nothing by, by name, since it started.
    ``neighbours``: of a source that ends on a node without the aggregator, the live processes whose
    spools lie beside its own.
    """

    incarnation: bytes
    watermark_mono_ns: int
    mono_ns: int
    unix_ns: int
    records: bytes = b""
    drops: dict[str, int] = {}
    figures: SourceFigures | None = None
    troubles: dict[str, int] = {}
    neighbours: tuple[Neighbour, ...] = ()


class Cursor(msgspec.Struct, frozen=True, array_like=True, tag="cursor"):
    """Answer to Hello and Batch: ``cursor`` is journaled, ``durable`` is on the disk.

    ``window``: frames that may be sent beyond ``cursor``. ``rewind``: send again from
    ``cursor + 1``. ``closed``: the run has ended and every backend has its last update
    (or gave up), so a closing rank 0 need not wait longer. ``journal_full``: why nothing can be
    journaled now, empty while it can; what was sent waits in the spool. ``awaited``: for a source
    that has finished, what the end of the run waits for. ``refused``: what the run did not take
    of what this source has sent, by reason.
    """

    epoch: Epoch
    cursor: int
    durable: int
    window: int
    mono_ns: int
    unix_ns: int
    rewind: bool = False
    closed: bool = False
    journal_full: str = ""
    awaited: str = ""
    refused: dict[str, int] = {}


class Reject(msgspec.Struct, frozen=True, array_like=True, tag="reject"):
    """Refusal. ``final``: do not try again; else after ``retry_after_s`` with a new Hello.

    Codes: ``unknown_source`` (say Hello), ``version``, ``closing``, ``held``,
    ``duplicate_rank``, ``bad_message``, ``too_many_sources``, ``not_allowed`` (the key
    may not publish as this rank).
    """

    code: str
    text: str
    final: bool = False
    retry_after_s: float = 1.0


class SourceStatus(msgspec.Struct, frozen=True, array_like=True):
    """A source as the aggregator sees it. ``state``: ``live``, ``silent`` (nothing for 5 s),
    ``finished``, ``lost``. ``age_s``: since its last batch, ping included; ``frame_age_s``:
    since its last frame. ``bad_messages``: what its connection sent and nobody could read.
    ``drops``: lost by reason; ``troubles``: what cost nothing. ``ended``: the status that it closed
    with, empty before it did. ``iteration``: a learner's newest one, ``None`` before the first."""

    key: SourceKey
    pid: int
    host: str
    state: str
    age_s: float
    frame_age_s: float | None
    cursor: int
    lost_frames: int
    drops: dict[str, int] = {}
    clock_skew_s: float = 0.0
    duplicates: int = 0
    bad_messages: int = 0
    figures: SourceFigures | None = None
    troubles: dict[str, int] = {}
    ended: str = ""
    iteration: int | None = None


class BackendStatus(msgspec.Struct, frozen=True, array_like=True):
    """A writer's position. ``state``: ``running``, ``finished``, ``restarting``, ``failed``.
    ``age_s``: since its writer's last word, ``None`` before the first; a writer says nothing
    here, the aggregator does."""

    name: str
    state: str
    update: int
    pid: int = 0
    text: str = ""
    age_s: float | None = None


class Head(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    """Where the run is; sent at each commit and once a second.

    ``update``: the last update sequence; ``durable``: the last one that is on the disk.
    ``uptime_s``: of the aggregator. ``journal_full``: why it cannot write, empty while it can.
    ``bad_messages``: what came to any of its sockets and was no message, since the run began.
    ``refused_connections``: who was not let in, since the aggregator started. ``fetch_port``:
    the TCP port beside this one that answers requests, 0 if there is none. ``answers``: names of
    the requests that it answers beyond ``fetch``, ``latest`` and ``history``; others would be
    counted as bad messages and not answered. ``node``: what rank 0's node says of itself, by tag
    (``Node/…``), while no update carries it: before the first, and between long iterations.
    ``alerts``: the newest ones that are open, oldest first, of ``alerts_open`` in all.
    ``alert_webhook``: what could not be delivered, empty for nothing.
    ``training_s``: how long the training has gone on, earlier attempts included, also between
    updates and while only some ranks are left; ``None`` if nobody says. ``first_iteration``: the
    lowest of the run that has an update: loops count from 0 or from 1. ``best_mean_reward``: the
    highest one of the run so far; ``None`` before the first finite one. ``earlier_s``: training
    time of the attempts before this one; ``attempt_iteration``: the first of this attempt that has
    an update.
    """

    epoch: Epoch
    update: int
    durable: int
    attempt: int
    run: RunInfo
    run_dir: str
    sources: tuple[SourceStatus, ...]
    backends: tuple[BackendStatus, ...]
    mono_ns: int
    unix_ns: int
    ended: str | None = None
    late_values: int = 0
    quarantined: int = 0
    uptime_s: float = 0.0
    journal_full: str = ""
    bad_messages: int = 0
    refused_connections: int = 0
    fetch_port: int = 0
    answers: tuple[str, ...] = ()
    node: dict[str, float] = {}
    alerts: tuple[AlertStatus, ...] = ()
    alerts_open: int = 0
    alert_webhook: str = ""
    training_s: float | None = None
    first_iteration: int | None = None
    best_mean_reward: float | None = None
    earlier_s: float = 0.0
    attempt_iteration: int | None = None


Upward = Hello | Batch
Downward = Cursor | Reject
