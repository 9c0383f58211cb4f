"""Bytes to structs and back. The only place that names a decoder.

Records carry their kind in the record header (``storage.records``), so their payloads are
untagged arrays; messages carry a tag. Every decoder is typed: nothing here builds an
object that the schema does not name. Anything wrong raises :class:`FrameDecodeError`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from unilab_schema import control, frames, identity, requests, updates

MAX_FRAME_BYTES = 256 * 1024
"""Largest record payload; checked when encoding, because a receiver can only disconnect."""
MAX_HISTORY_BYTES = MAX_FRAME_BYTES + 8192
"""Largest payload of a history record: a source's frame and who it is from."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""ZMQ_MAXMSGSIZE of every socket."""
MAX_FRAME_TAGS = 4096
"""A call with more tags is split into frames joined by ``more``."""
MAX_TAG_BYTES = 512
MAX_LAYOUTS = 64
MAX_STEP = 2**50
"""Largest step, iteration or step counter of one source, of either sign: exact as a float64, and
the sum over 4,096 sources still fits an int64."""


class FrameDecodeError(ValueError):
    """Bytes that are no valid record payload or message. ``what`` names what was expected."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


class RecordKind(IntEnum):
    """The kind byte of a record header. Numbers are never reused."""

    IDENTITY = 1
    LAYOUT = 2
    ITERATION = 3
    REPORT = 4
    SPARSE = 5
    TAG_NAMES = 6
    POINTS = 7
    EVENT = 8
    SPAN = 9
    BLOB = 10
    DEFINITION = 11
    GAP = 12
    DROPS = 13
    END = 14

    UPDATE_LAYOUT = 32
    UPDATE = 33
    SUPPLEMENT = 34
    POINTS_UPDATE = 35
    EVENT_UPDATE = 36
    BLOB_UPDATE = 37
    ATTEMPT_OPENED = 38
    RUN_ENDED = 39
    BIN_BLOCK = 40

    # 64 to 95: the aggregator's wal, defined by unilab_metrics.aggregate.folding.entries
    # 96 to 127: segment headers, defined by unilab_metrics.storage


PAYLOADS: dict[int, type[msgspec.Struct]] = {
    RecordKind.IDENTITY: identity.Identity,
    RecordKind.LAYOUT: frames.Layout,
    RecordKind.ITERATION: frames.IterationFrame,
    RecordKind.REPORT: frames.ReportFrame,
    RecordKind.SPARSE: frames.SparseFrame,
    RecordKind.TAG_NAMES: frames.TagNames,
    RecordKind.POINTS: frames.PointsFrame,
    RecordKind.EVENT: frames.EventFrame,
    RecordKind.SPAN: frames.SpanFrame,
    RecordKind.BLOB: frames.BlobFrame,
    RecordKind.DEFINITION: frames.DefinitionFrame,
    RecordKind.GAP: frames.Gap,
    RecordKind.DROPS: frames.Drops,
    RecordKind.END: frames.End,
    RecordKind.UPDATE_LAYOUT: updates.UpdateLayout,
    RecordKind.UPDATE: updates.Update,
    RecordKind.SUPPLEMENT: updates.Supplement,
    RecordKind.POINTS_UPDATE: updates.PointsUpdate,
    RecordKind.EVENT_UPDATE: updates.EventUpdate,
    RecordKind.BLOB_UPDATE: updates.BlobUpdate,
    RecordKind.ATTEMPT_OPENED: updates.AttemptOpened,
    RecordKind.RUN_ENDED: updates.RunEnded,
    RecordKind.BIN_BLOCK: updates.BinBlock,
}
KIND_OF: dict[type[msgspec.Struct], int] = {payload: kind for kind, payload in PAYLOADS.items()}

_encoder = msgspec.msgpack.Encoder()
_payload_decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(payload) for kind, payload in PAYLOADS.items()
}
_upward = msgspec.msgpack.Decoder(control.Upward)
_downward = msgspec.msgpack.Decoder(control.Downward)
_request = msgspec.msgpack.Decoder(requests.Request)
_reply = msgspec.msgpack.Decoder(requests.Reply)
_head = msgspec.msgpack.Decoder(control.Head)
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
_VERSION_BYTE = bytes([control.PROTOCOL_VERSION])


def encode_payload(payload: msgspec.Struct) -> bytes:
    """The msgpack bytes of a record payload. Raises ``ValueError`` beyond 256 KiB, and 264 KiB
    for what the aggregator publishes."""
    data = _encoder.encode(payload)
    if len(data) > MAX_FRAME_BYTES and (
        KIND_OF[type(payload)] < RecordKind.UPDATE_LAYOUT or len(data) > MAX_HISTORY_BYTES
    ):
        raise ValueError(
            f"{type(payload).__name__} of {len(data)} bytes exceeds {MAX_FRAME_BYTES}; split it"
        )
    return data


def decode_payload(kind: int, payload: bytes | memoryview) -> Any:
    """The struct of a record payload. Raises :class:`FrameDecodeError`."""
    decoder = _payload_decoders.get(kind)
    if decoder is None:
        raise FrameDecodeError("record", f"unknown kind {kind}")
    try:
        return decoder.decode(payload)
    except _UNDECODABLE as error:
        raise FrameDecodeError(RecordKind(kind).name.lower(), str(error)) from error


def encode_message(message: msgspec.Struct) -> bytes:
    """A message for one ZeroMQ part: the protocol version byte, then tagged msgpack."""
    return _VERSION_BYTE + _encoder.encode(message)


def decode_upward(data: bytes | memoryview) -> control.Upward:
    """A source's message. Raises :class:`FrameDecodeError`."""
    return _decode_message(_upward, data, "hello or batch")


def decode_downward(data: bytes | memoryview) -> control.Downward:
    """The aggregator's answer to a source. Raises :class:`FrameDecodeError`."""
    return _decode_message(_downward, data, "cursor or reject")


def decode_request(data: bytes | memoryview) -> requests.Request:
    """A subscriber's request. Raises :class:`FrameDecodeError`."""
    return _decode_message(_request, data, "request")


def decode_reply(data: bytes | memoryview) -> requests.Reply:
    """The aggregator's reply to a subscriber. Raises :class:`FrameDecodeError`."""
    return _decode_message(_reply, data, "reply")


def decode_head(data: bytes | memoryview) -> control.Head:
    """An announcement. Raises :class:`FrameDecodeError`."""
    return _decode_message(_head, data, "head")


def _decode_message(
    decoder: msgspec.msgpack.Decoder[Any], data: bytes | memoryview, what: str
) -> Any:
    if len(data) == 0:
        raise FrameDecodeError(what, "empty message")
    if data[0] != control.PROTOCOL_VERSION:
        raise FrameDecodeError(
            what, f"protocol version {data[0]}, this side speaks {control.PROTOCOL_VERSION}"
        )
    try:
        return decoder.decode(memoryview(data)[1:])
    except _UNDECODABLE as error:
        raise FrameDecodeError(what, str(error)) from error
