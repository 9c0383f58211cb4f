"""The bytes of ``schema/vectors/v1`` against the codec, in both directions.

A vector that has been released never changes. New bytes for old content mean that the
protocol or record version must rise, and that the old vector stays and still decodes.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)
from unilab_schema import alerts, codec, control, frames, identity, rank_values, requests, updates
from unilab_schema.codec import RecordKind
from unilab_schema.metrics import MetricSpec

VECTORS = Path(__file__).parents[2] / "schema" / "vectors" / "v1"


def _packed(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


KEY = identity.SourceKey(1, "collector", 2)
INCARNATION = bytes(range(16))
RUN = identity.RunInfo("sac", "cart_pole", "numpy", "env_steps", 1000, True, 2, "eval/return")
IDENTITY = identity.Identity(
    key=KEY,
    incarnation=INCARNATION,
    pid=4711,
    host="node-1",
    boot_id="0f0e0d0c",
    spool_path="/dev/shm/unilab-metrics-1000/launch/00",
    lease_path="/dev/shm/unilab-metrics-1000/launch/00/lease",
    started_mono_ns=5_000_000_000,
    started_unix_ns=1_767_323_045_000_000_000,
    expected_learners=2,
    run=RUN,
    version="0.1.0",
    pid_space=4_026_531_836,
)
EPOCH = control.Epoch(bytes(range(16, 32)), 3)
FIGURES = control.SourceFigures(3, 1000, 8_000_000, 24.5)
EVENT = frames.EventFrame(
    "checkpoint", "saved", 7, 8, 40, {"path": "model.pt", "size": 12, "x": None}
)
POINTS = frames.PointsFrame(
    (frames.Point("eval/return", -1.5, 400, 9), frames.Point("a b", 2.0, 0, 9))
)
BLOB = frames.BlobFrame(1, "image", "video/frame", 40, 9, b"\x89PNG", 0, 2, "image/png")
BLOCK = updates.BinBlock(
    first=1025,
    last=2048,
    attempt=1,
    iteration_range=(1020, 2040),
    env_steps_range=(65_280, 130_560),
    unix_ns_range=(13, 17),
    elapsed_s_range=(102.5, 205.0),
    tags=("a",),
    minimum=_packed(-1.0),
    maximum=_packed(3.0),
    mean=_packed(0.5),
    count=_packed(1021.0),
    latest=_packed(math.nan),
    not_finite=_packed(3.0),
    points=True,
)
UPDATE_LAYOUT = updates.UpdateLayout(1, ("Train/iteration", "Loss/actor"))

RECORDS: dict[str, tuple[RecordKind, msgspec.Struct]] = {
    "identity": (RecordKind.IDENTITY, IDENTITY),
    "layout": (RecordKind.LAYOUT, frames.Layout(0, ("Loss/actor", "reward/größe"), 0, 1)),
    "iteration": (
        RecordKind.ITERATION,
        frames.IterationFrame(0, 12, 768, 11, 13, _packed(1.5, -math.inf)),
    ),
    "iteration-partial": (
        RecordKind.ITERATION,
        frames.IterationFrame(
            0,
            12,
            None,
            11,
            13,
            _packed(5.0, 4.0),
            _packed(5.0, 1.0),
            more=True,
            already_reduced=True,
        ),
    ),
    "report": (RecordKind.REPORT, frames.ReportFrame(0, 384, 11, 13, _packed(0.1, 0.2))),
    "sparse": (
        RecordKind.SPARSE,
        frames.SparseFrame(struct.pack("<2I", 70, 65_600), 12, 768, 11, 13, _packed(1.0, 2.0)),
    ),
    "tag-names": (RecordKind.TAG_NAMES, frames.TagNames(70, ("a", "b"))),
    "points": (RecordKind.POINTS, POINTS),
    "event": (RecordKind.EVENT, EVENT),
    "span": (
        RecordKind.SPAN,
        frames.SpanFrame("update", "learner", "main", 100, 2_000_000, {"batch": 256}),
    ),
    "blob": (RecordKind.BLOB, BLOB),
    "definition": (
        RecordKind.DEFINITION,
        frames.DefinitionFrame(
            MetricSpec("my/*", "user", "m", "sum", "max", "Mine.", False, False, "My")
        ),
    ),
    "gap": (RecordKind.GAP, frames.Gap(5, 9, "damaged")),
    "drops": (RecordKind.DROPS, frames.Drops({"quota": 3, "not_a_number": 1}, {"key_refused": 2})),
    "end": (RecordKind.END, frames.End("completed", 11, 13, {"quota": 3}, {"key_refused": 2})),
    "update-layout": (RecordKind.UPDATE_LAYOUT, UPDATE_LAYOUT),
    "update": (
        RecordKind.UPDATE,
        updates.Update(1, 12, 1536, 13, 17, 2.5, 1, 2, 1, _packed(12.0, math.nan), (1,)),
    ),
    "supplement": (
        RecordKind.SUPPLEMENT,
        updates.Supplement(1, 12, None, 13, 17, 2.5, 2, _packed(4.0)),
    ),
    "points-update": (RecordKind.POINTS_UPDATE, updates.PointsUpdate(1, KEY, POINTS)),
    "event-update": (RecordKind.EVENT_UPDATE, updates.EventUpdate(1, None, EVENT)),
    "blob-update": (RecordKind.BLOB_UPDATE, updates.BlobUpdate(1, KEY, BLOB)),
    "attempt-opened": (RecordKind.ATTEMPT_OPENED, updates.AttemptOpened(2, 13, RUN, 60.5)),
    "run-ended": (RecordKind.RUN_ENDED, updates.RunEnded(2, "completed", 13, "")),
    "bin-block": (RecordKind.BIN_BLOCK, BLOCK),
}

MESSAGES: dict[str, tuple[Any, msgspec.Struct]] = {
    "hello": (codec.decode_upward, control.Hello(IDENTITY, 1, 0, 11, 13, True)),
    "batch": (
        codec.decode_upward,
        control.Batch(
            INCARNATION,
            10,
            11,
            13,
            b"\x75\x6d",
            {"quota": 3},
            FIGURES,
            {"key_refused": 2},
            (control.Neighbour(bytes(range(32, 48)), KEY, 4712),),
        ),
    ),
    "batch-ping": (codec.decode_upward, control.Batch(INCARNATION, 10, 11, 13)),
    "cursor": (
        codec.decode_downward,
        control.Cursor(
            EPOCH, 40, 30, 512, 11, 13, True, False, "disk full", "rank 1", {"too_many_run_tags": 5}
        ),
    ),
    "reject": (codec.decode_downward, control.Reject("closing", "the run ends", False, 0.5)),
    "head": (
        codec.decode_head,
        control.Head(
            EPOCH,
            100,
            90,
            1,
            RUN,
            "logs/sac/cart_pole/2026-01-02_03-04-05_numpy",
            (
                control.SourceStatus(
                    KEY,
                    4711,
                    "node-1",
                    "live",
                    0.02,
                    None,
                    40,
                    0,
                    {},
                    0.0,
                    5,
                    6,
                    FIGURES,
                    {"a": 2},
                    "failed",
                    41,
                ),
            ),
            (control.BackendStatus("tensorboard", "running", 90, 4712, "", 0.25),),
            11,
            13,
            None,
            2,
            1,
            60.5,
            "disk full",
            7,
            5,
            7401,
            ("ranks",),
            {"Node/0/cpu_percent": 43.5},
            (alerts.AlertStatus(80, "nonfinite", "Loss/a", "NaN in Loss/a", "bad", 3, 13),),
            2,
            "example.org: 1 not delivered",
            12.5,
            1,
            487.25,
            4.5,
            3,
        ),
    ),
    "fetch": (
        codec.decode_request,
        requests.Fetch(1, 60, 500, ("Loss/actor",), (32,), (b"\x6d\x61\x72\x6b",)),
    ),
    "updates": (
        codec.decode_reply,
        requests.Updates(1, EPOCH, 62, (UPDATE_LAYOUT,), b"\x75\x6d"),
    ),
    "latest": (codec.decode_request, requests.Latest(2)),
    "snapshot": (
        codec.decode_reply,
        requests.Snapshot(2, EPOCH, 62, ("a", "b"), _packed(1.0, 2.0), struct.pack("<2q", 62, 7)),
    ),
    "history": (codec.decode_request, requests.History(3, 1024, ("a",))),
    "blocks": (codec.decode_reply, requests.Blocks(3, EPOCH, (BLOCK,), True, 1025, 2048)),
    "ranks": (codec.decode_request, requests.Ranks(4, ("a", "b"))),
    "rank-values": (
        codec.decode_reply,
        requests.RankValues(
            4,
            EPOCH,
            1,
            11,
            2,
            ("a", "b"),
            (
                rank_values.RankRow(
                    KEY,
                    "lost",
                    9.5,
                    None,
                    None,
                    384,
                    40,
                    _packed(math.inf, 0.0),
                    _packed(9.5, math.nan),
                    "completed",
                    38,
                ),
            ),
            (
                rank_values.RankSpread(0, 1),
                rank_values.RankSpread(2, 0, 1.5, 2.0, 2.5, KEY, identity.SourceKey(0, "learner")),
            ),
            7,
            1,
        ),
    ),
    "console": (codec.decode_request, requests.Console(5, "2f3a", 8192, True, 4096)),
    "console-piece": (
        codec.decode_reply,
        requests.ConsolePiece(5, "2f3a", 4096, b"epoch 1\r\n\xff", 77, True, True, "why"),
    ),
    "progress": (
        codec.decode_request,
        requests.BackendProgress(control.BackendStatus("tensorboard", "finished", 100)),
    ),
}


def _vector(name: str) -> bytes:
    lines = (VECTORS / f"{name}.hex").read_text("ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def _same(left: object, right: object) -> bool:
    # repr because NaN differs from itself; the packed values are bytes and compare exactly.
    return type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_payload_has_the_golden_bytes(name: str) -> None:
    kind, payload = RECORDS[name]
    golden = _vector(f"record-{name}")
    assert codec.encode_payload(payload).hex() == golden.hex()
    assert _same(codec.decode_payload(kind, golden), payload)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_golden_bytes(name: str) -> None:
    decode, message = MESSAGES[name]
    golden = _vector(f"message-{name}")
    assert codec.encode_message(message).hex() == golden.hex()
    assert _same(decode(golden), message)


def test_a_whole_record_has_the_golden_bytes() -> None:
    golden = _vector("whole-record-gap")
    kind, payload = RECORDS["gap"]
    assert encode_record(kind, 2**40 + 5, codec.encode_payload(payload)).hex() == golden.hex()
    found = scan(golden)
    assert [(record.kind, record.sequence) for record in found.records] == [(kind, 2**40 + 5)]
    assert found.valid_bytes == len(golden)
    assert codec.decode_payload(kind, found.records[0].payload) == payload


def test_a_segment_header_has_the_golden_bytes() -> None:
    golden = _vector("whole-record-segment-header")
    header = SegmentHeader(1, "history", EPOCH, 4, "history-000002-000003", 8_388_608)
    assert encode_segment_header(header).hex() == golden.hex()
    (record,) = scan(golden).records
    assert (record.kind, record.sequence) == (KIND_SEGMENT_HEADER, 0)
    assert decode_segment_header(record.payload, VECTORS) == header


def test_every_kind_and_message_has_a_vector() -> None:
    assert {kind for kind, _ in RECORDS.values()} == set(RecordKind)
    tags = {type(message).__struct_config__.tag for _, message in MESSAGES.values()}
    declared = (
        control.Upward.__args__
        + control.Downward.__args__
        + requests.Request.__args__
        + requests.Reply.__args__
        + (control.Head,)
    )
    assert tags == {message.__struct_config__.tag for message in declared}


def test_every_vector_file_is_compared() -> None:
    expected = {f"record-{name}" for name in RECORDS} | {f"message-{name}" for name in MESSAGES}
    expected |= {"whole-record-gap", "whole-record-segment-header"}
    assert {path.stem for path in VECTORS.glob("*.hex")} == expected


def test_fields_that_an_older_sender_does_not_know_take_their_defaults() -> None:
    short = msgspec.msgpack.encode([0, 384, 11, 13, _packed(0.1)])
    assert codec.decode_payload(RecordKind.REPORT, short) == frames.ReportFrame(
        0, 384, 11, 13, _packed(0.1), b""
    )


def test_fields_of_a_newer_sender_are_ignored() -> None:
    long = msgspec.msgpack.encode([5, 9, "damaged", {"new": "field"}, 1])
    assert codec.decode_payload(RecordKind.GAP, long) == frames.Gap(5, 9, "damaged")


def test_kind_numbers_are_frozen() -> None:
    assert {kind.name: int(kind) for kind in RecordKind} == {
        "IDENTITY": 1, "LAYOUT": 2, "ITERATION": 3, "REPORT": 4, "SPARSE": 5, "TAG_NAMES": 6,
        "POINTS": 7, "EVENT": 8, "SPAN": 9, "BLOB": 10, "DEFINITION": 11, "GAP": 12, "DROPS": 13,
        "END": 14, "UPDATE_LAYOUT": 32, "UPDATE": 33, "SUPPLEMENT": 34, "POINTS_UPDATE": 35,
        "EVENT_UPDATE": 36, "BLOB_UPDATE": 37, "ATTEMPT_OPENED": 38, "RUN_ENDED": 39, "BIN_BLOCK": 40,
    }  # fmt: skip
