"""Any struct survives the wire, and no bytes whatever do more than raise FrameDecodeError."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_schema import codec, control, frames, requests
from unilab_schema.codec import FrameDecodeError, RecordKind

# What msgpack can carry: 64-bit integers and text that UTF-8 can encode.
INT = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALAR = st.none() | st.booleans() | INT | st.floats() | TEXT
BASIC: dict[Any, st.SearchStrategy[Any]] = {
    int: INT,
    str: TEXT,
    bytes: st.binary(max_size=40),
    float: st.floats(),
}
for basic, strategy in BASIC.items():
    st.register_type_strategy(basic, strategy)

PACKED = st.lists(st.floats(width=64), max_size=20).map(
    lambda values: struct.pack(f"<{len(values)}d", *values)
)


def _structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances of a struct with every field drawn from its declared type."""
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.encode_name: _of(field.type) for field in fields})


def _of(annotation: Any) -> st.SearchStrategy[Any]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _structs(annotation)
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple and annotation.__args__[-1] is not Ellipsis:
        return st.tuples(*(_of(part) for part in annotation.__args__))
    if origin is tuple:
        return st.lists(_of(annotation.__args__[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, _of(annotation.__args__[1]), max_size=3)
    options = getattr(annotation, "__args__", None)
    if options is not None and origin is not None and str(origin) == "typing.Literal":
        return st.sampled_from(options)
    if options is not None:
        return st.one_of([_of(option) for option in options])
    return st.none() if annotation in (None, type(None)) else st.from_type(annotation)


PAYLOADS = st.sampled_from(sorted(codec.PAYLOADS)).flatmap(
    lambda kind: st.tuples(st.just(kind), _structs(codec.PAYLOADS[kind]))
)
DECODERS: dict[type[msgspec.Struct], Any] = {
    control.Head: codec.decode_head,
    **dict.fromkeys(control.Upward.__args__, codec.decode_upward),
    **dict.fromkeys(control.Downward.__args__, codec.decode_downward),
    **dict.fromkeys(requests.Request.__args__, codec.decode_request),
    **dict.fromkeys(requests.Reply.__args__, codec.decode_reply),
}
MESSAGES = st.sampled_from(list(DECODERS)).flatmap(_structs)


def _encoded(struct_: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(struct_)


@given(PAYLOADS)
def test_every_payload_survives_the_wire(item: tuple[int, msgspec.Struct]) -> None:
    kind, payload = item
    decoded = codec.decode_payload(kind, codec.encode_payload(payload))
    # NaN differs from itself, so the bytes are compared.
    assert type(decoded) is type(payload)
    assert _encoded(decoded) == _encoded(payload)


@given(MESSAGES)
def test_every_message_survives_the_wire(message: msgspec.Struct) -> None:
    decoded = DECODERS[type(message)](codec.encode_message(message))
    assert type(decoded) is type(message)
    assert _encoded(decoded) == _encoded(message)


@given(PACKED)
def test_packed_values_arrive_bit_for_bit(values: bytes) -> None:
    frame = frames.IterationFrame(0, 1, None, 2, 3, values)
    data = codec.encode_payload(frame)
    assert codec.decode_payload(RecordKind.ITERATION, data).values == values


@given(st.integers(0, 255), st.binary(max_size=200))
def test_random_bytes_are_a_payload_or_a_decode_error(kind: int, data: bytes) -> None:
    _only_decode_errors(codec.decode_payload, kind, data)


@given(PAYLOADS, st.data())
def test_a_damaged_payload_is_a_payload_or_a_decode_error(
    item: tuple[int, msgspec.Struct], data: st.DataObject
) -> None:
    kind, payload = item
    _only_decode_errors(codec.decode_payload, kind, data.draw(_mutated(_encoded(payload))))


@given(MESSAGES, st.data())
def test_a_damaged_message_is_a_message_or_a_decode_error(
    message: msgspec.Struct, data: st.DataObject
) -> None:
    mutated = data.draw(_mutated(codec.encode_message(message)))
    for decode in set(DECODERS.values()):
        _only_decode_errors(decode, mutated)


@given(MESSAGES)
def test_a_truncated_message_is_refused(message: msgspec.Struct) -> None:
    whole = codec.encode_message(message)
    decode = DECODERS[type(message)]
    for length in range(len(whole)):
        try:
            decode(whole[:length])
        except FrameDecodeError:
            continue
        pytest.fail(f"{length} of {len(whole)} bytes were taken for a message")


@given(MESSAGES, st.integers(0, 255).filter(lambda version: version != control.PROTOCOL_VERSION))
def test_another_protocol_version_is_refused_by_its_number(
    message: msgspec.Struct, version: int
) -> None:
    data = bytes([version]) + codec.encode_message(message)[1:]
    with pytest.raises(FrameDecodeError, match=f"version {version}"):
        DECODERS[type(message)](data)


@given(st.integers(0, 255).filter(lambda kind: kind not in codec.PAYLOADS), st.binary(max_size=8))
def test_an_unknown_kind_is_refused_by_its_number(kind: int, data: bytes) -> None:
    with pytest.raises(FrameDecodeError, match=f"unknown kind {kind}"):
        codec.decode_payload(kind, data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x93\x01",
    ],
    ids=["empty", "never used byte", "deep nesting", "huge array", "huge bytes", "cut array"],
)
def test_hostile_bytes_are_refused_by_every_decoder(data: bytes) -> None:
    for kind in codec.PAYLOADS:
        with pytest.raises(FrameDecodeError):
            codec.decode_payload(kind, data)
    for decode in set(DECODERS.values()):
        for prefix in (b"", bytes([control.PROTOCOL_VERSION])):
            with pytest.raises(FrameDecodeError):
                decode(prefix + data)


def test_text_that_is_no_utf_8_is_a_decode_error() -> None:
    with pytest.raises(FrameDecodeError):
        codec.decode_payload(RecordKind.TAG_NAMES, b"\x92\x00\x91\xa2\xed\xa0")


def test_a_payload_beyond_the_limit_is_refused_when_encoding() -> None:
    frame = frames.BlobFrame(1, "image", "a", 0, 0, bytes(codec.MAX_FRAME_BYTES))
    with pytest.raises(ValueError, match="split it"):
        codec.encode_payload(frame)


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_infinities_and_not_a_number_keep_their_kind(values: list[float]) -> None:
    point = frames.PointsFrame(tuple(frames.Point("a", value, 0, 0) for value in values))
    decoded = codec.decode_payload(RecordKind.POINTS, codec.encode_payload(point))
    for before, after in zip(values, decoded.points, strict=True):
        assert after.value == before or (math.isnan(before) and math.isnan(after.value))


def _mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """Cut short, a byte replaced, a piece inserted."""
    position = st.integers(0, len(data))
    cut = position.map(lambda at: data[:at])
    inserted = st.tuples(position, st.binary(min_size=1, max_size=6)).map(
        lambda item: data[: item[0]] + item[1] + data[item[0] :]
    )
    if not data:
        return inserted
    replaced = st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)).map(
        lambda item: data[: item[0]] + bytes([item[1]]) + data[item[0] + 1 :]
    )
    return st.one_of(cut, replaced, inserted)


def _only_decode_errors(decode: Any, *arguments: Any) -> None:
    try:
        decode(*arguments)
    except FrameDecodeError as error:
        reason = error.reason
    else:
        return
    assert reason
