"""Writes history segments as the aggregator does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import SegmentHeader, encode_segment_header, segment_name
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch
from unilab_schema.updates import Update, UpdateLayout

TAGS = ("Loss/actor", "Train/iteration")


def layout(number: int = 0, tags: tuple[str, ...] = TAGS) -> bytes:
    payload = encode_payload(UpdateLayout(number, tags))
    return encode_record(RecordKind.UPDATE_LAYOUT, 0, payload)


def update(sequence: int, *values: float, number: int = 0) -> bytes:
    packed = np.array(values or (sequence / 2, sequence), dtype="<f8").tobytes()
    entry = Update(1, sequence, None, 0, 0, 0.0, 2, 2, number, packed)
    return encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))


class Segments:
    """Writes history segments as the aggregator does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, epoch: int = 1, number: int = 0, *, after: Path | None = None,
              valid_bytes: int | None = None, layouts: bytes | None = None) -> Path:  # fmt: skip
        path = self.directory / segment_name("history", epoch, number)
        previous = after.name if after is not None else ""
        if valid_bytes is None:
            valid_bytes = after.stat().st_size if after is not None and after.exists() else 0
        header = SegmentHeader(1, "history", Epoch(b"j" * 16, epoch), number, previous, valid_bytes)
        content = encode_segment_header(header) + (layout() if layouts is None else layouts)
        path.write_bytes(content)
        return path

    @staticmethod
    def append(path: Path, *records: bytes) -> None:
        with path.open("ab") as file:
            file.write(b"".join(records))


def sequences(records: list[HistoryRecord]) -> list[int]:
    return [record.sequence for record in records]
