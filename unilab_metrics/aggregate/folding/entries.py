"""What the wal holds: frames that were accepted and decisions that were taken.

Folding the entries through :class:`~unilab_metrics.aggregate.folding.state.AggregatorState` gives
the same state and the same updates as the first time, because everything that depended on
a clock is an entry. Kinds 64 to 95 of the one record format.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from unilab_schema.codec import FrameDecodeError
from unilab_schema.control import SourceFigures
from unilab_schema.frames import Scalar
from unilab_schema.identity import Identity


class EntryKind(IntEnum):
    """The kind byte of a wal record."""

    SOURCE_JOINED = 64
    BATCH = 65
    SOURCE_GONE = 66
    GAP_FOUND = 67
    SEAL = 68
    ATTEMPT = 69
    NOTICE = 70
    RUN_END = 71
    SNAPSHOT = 72
    SOURCE_RETURNED = 73
    END_WITHDRAWN = 74
    ALERT_RULES = 75


class SourceJoined(msgspec.Struct, frozen=True, array_like=True):
    """A new incarnation was admitted; later entries call it ``source``. ``is_late``: only to take
    what it has left; a ``SourceGone`` that says why follows."""

    source: int
    identity: Identity
    is_late: bool = False


class AcceptedBatch(msgspec.Struct, frozen=True, array_like=True):
    """Records of one source, verbatim, in sequence and without a hole after its cursor."""

    source: int
    watermark_mono_ns: int
    records: bytes


class SourceGone(msgspec.Struct, frozen=True, array_like=True):
    """Every frame of the source is in the wal. ``how``: ``finished``, ``lost``,
    ``superseded``: another process has the place, and what this one says is counted as late, or
    ``double``: another one had it from the start. ``ending``: what is known of how its process
    ended. Without a ``text`` nothing is told of the last two."""

    source: int
    how: str
    unix_ns: int
    mono_ns: int
    text: str = ""
    ending: str = ""


class SourceReturned(msgspec.Struct, frozen=True, array_like=True):
    """A source of another node that was taken for lost has been heard again."""

    source: int
    unix_ns: int
    mono_ns: int
    text: str


class GapFound(msgspec.Struct, frozen=True, array_like=True):
    """The source no longer holds ``first..last``; they are lost."""

    source: int
    first: int
    last: int
    reason: str


class SourceNews(msgspec.Struct, frozen=True, array_like=True):
    """What is new of a source's publishing: its newest figures, drops and troubles, ``None`` where
    they have not changed, and how many duplicates and unreadable messages came since the last
    news."""

    source: int
    figures: SourceFigures | None = None
    duplicates: int = 0
    bad_messages: int = 0
    drops: dict[str, int] | None = None
    troubles: dict[str, int] | None = None


class BusNews(msgspec.Struct, frozen=True, array_like=True):
    """What is new of the bus itself. ``bad_messages``: at any socket, since the last news.
    ``commit_ms``: mean of the journal's commits since then, ``None`` without any. ``node``: a
    new sample of this node, by its ``Node/…`` tags."""

    sources: tuple[SourceNews, ...] = ()
    bad_messages: int = 0
    commit_ms: float | None = None
    node: dict[str, float] = {}


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """Reduce an iteration now. ``why``: ``complete``, ``straggler``, ``overflow``, ``end``, or
    ``reports``: no frames, but the reports that are left of sealed iterations. ``bus``: the update
    gets the ``Bus/…`` tags, with these news taken in."""

    iteration: int
    mono_ns: int
    unix_ns: int
    why: str = "complete"
    supplement: bool = False
    bus: BusNews | None = None


class OpenAttempt(msgspec.Struct, frozen=True, array_like=True):
    """The training was started again: learner rank 0 has a new incarnation."""

    attempt: int
    unix_ns: int


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """An event of the aggregator's own, told to subscribers. ``data``: its facts."""

    kind: str
    text: str
    mono_ns: int
    unix_ns: int
    data: dict[str, Scalar] = {}


class RunEnd(msgspec.Struct, frozen=True, array_like=True):
    """Every source is finished or lost."""

    status: str
    text: str
    unix_ns: int


class EndWithdrawn(msgspec.Struct, frozen=True, array_like=True):
    """More of the attempt has come after its end, which holds no longer."""

    unix_ns: int
    mono_ns: int
    text: str


class AlertRules(msgspec.Struct, frozen=True, array_like=True):
    """From here on alerts are computed; ``rules`` are those of users, as texts. ``rewards``: the tags
    that may be the reward, the first of which that comes is it; of older versions none, which knew
    ``Train/mean_reward`` only, and whose journals fold as they did."""

    rules: tuple[str, ...]
    mono_ns: int
    unix_ns: int
    rewards: tuple[str, ...] = ()


Entry = (
    SourceJoined
    | AcceptedBatch
    | SourceGone
    | SourceReturned
    | GapFound
    | Seal
    | OpenAttempt
    | Notice
    | RunEnd
    | EndWithdrawn
    | AlertRules
)

KIND_OF_ENTRY: dict[type[msgspec.Struct], EntryKind] = {
    SourceJoined: EntryKind.SOURCE_JOINED,
    AcceptedBatch: EntryKind.BATCH,
    SourceGone: EntryKind.SOURCE_GONE,
    SourceReturned: EntryKind.SOURCE_RETURNED,
    GapFound: EntryKind.GAP_FOUND,
    Seal: EntryKind.SEAL,
    OpenAttempt: EntryKind.ATTEMPT,
    Notice: EntryKind.NOTICE,
    RunEnd: EntryKind.RUN_END,
    EndWithdrawn: EntryKind.END_WITHDRAWN,
    AlertRules: EntryKind.ALERT_RULES,
}

TWICE = frozenset([EntryKind.SOURCE_JOINED, EntryKind.ATTEMPT, EntryKind.END_WITHDRAWN])
"""Kinds that are written twice in a row, and folded once: every later entry builds on them, so a
single damaged record must not cost them."""

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(entry) for entry, kind in KIND_OF_ENTRY.items()
}


def encode_entry(entry: Entry) -> tuple[int, bytes]:
    """Kind and payload of a wal record."""
    return KIND_OF_ENTRY[type(entry)], _encoder.encode(entry)


def decode_entry(kind: int, payload: bytes | memoryview) -> Entry:
    """The entry of a wal record. Raises ``FrameDecodeError``."""
    decoder = _decoders.get(kind)
    if decoder is None:
        raise FrameDecodeError("wal record", f"unknown kind {kind}")
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameDecodeError(EntryKind(kind).name.lower(), str(error)) from error
