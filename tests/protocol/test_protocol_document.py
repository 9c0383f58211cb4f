"""``schema/README.md`` names every field of the wire, in its order."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from unilab_metrics.aggregate.journaling.evidence import KIND_DURABLE, Durable
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, SegmentHeader
from unilab_schema import codec, control, frames, identity, rank_values, requests
from unilab_schema.metrics import MetricSpec

DOCUMENT = (Path(__file__).parents[2] / "schema" / "README.md").read_text("utf-8")
PARTS: tuple[type[msgspec.Struct], ...] = (
    identity.SourceKey,
    identity.RunInfo,
    frames.Point,
    MetricSpec,
    control.Epoch,
    control.SourceFigures,
    control.Neighbour,
    control.SourceStatus,
    control.BackendStatus,
    rank_values.RankRow,
    rank_values.RankSpread,
)
MESSAGES: tuple[type[msgspec.Struct], ...] = (
    control.Head,
    *control.Upward.__args__,
    *control.Downward.__args__,
    *requests.Request.__args__,
    *requests.Reply.__args__,
)
KINDS: dict[int, type[msgspec.Struct]] = {
    **codec.PAYLOADS,
    KIND_SEGMENT_HEADER: SegmentHeader,
    KIND_DURABLE: Durable,
}


def _sections() -> dict[str, str]:
    pieces = re.split(r"^#{2,3} (.+)$", DOCUMENT, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _documented_fields(heading: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", _sections()[heading], flags=re.MULTILINE)


def _fields(struct: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(struct)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_kind_is_described(kind: int) -> None:
    struct = KINDS[kind]
    assert _documented_fields(f"{struct.__name__} (kind {int(kind)})") == _fields(struct)


@pytest.mark.parametrize("struct", MESSAGES, ids=lambda struct: struct.__name__)
def test_every_message_is_described(struct: type[msgspec.Struct]) -> None:
    tag = struct.__struct_config__.tag
    assert _documented_fields(f"{struct.__name__}, `{tag}`") == _fields(struct)


@pytest.mark.parametrize("struct", PARTS, ids=lambda struct: struct.__name__)
def test_every_part_of_a_payload_is_described(struct: type[msgspec.Struct]) -> None:
    assert _documented_fields(struct.__name__) == _fields(struct)


def test_limits_are_the_codes() -> None:
    limits = _sections()["Limits"]
    assert codec.MAX_MESSAGE_BYTES == 2**20
    assert "| message | 1 MiB |" in limits
    assert codec.MAX_FRAME_BYTES == 256 * 1024
    assert "| record payload of a source or of the history | 256 KiB |" in limits
    assert codec.MAX_HISTORY_BYTES == 264 * 1024
    assert "| a source's frame with its wrapping in the history | 264 KiB |" in limits
    assert f"| tags in a frame | {codec.MAX_FRAME_TAGS:,};" in limits
    assert f"| bytes of a tag | {codec.MAX_TAG_BYTES} |" in limits
    assert f"| layouts of a source | {codec.MAX_LAYOUTS}," in limits
