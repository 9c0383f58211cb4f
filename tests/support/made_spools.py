"""Spools that a test fills by itself, and what lies in them."""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.publish.spool import Spool
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame, Layout
from unilab_schema.identity import Identity, SourceKey

MakeSpool = Callable[..., Spool]
"""The fixture ``make`` of the tests of storage."""


def identity() -> Identity:
    return Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)


def event(text: str = "x" * 100) -> Callable[[int, int], bytes]:
    return lambda mono, unix: encode_payload(EventFrame("status", text, mono, unix))


def layout(number: int) -> Callable[[int, int], bytes]:
    return lambda mono, unix: encode_payload(Layout(number, (f"tag{number}",)))


def counts(spool: Spool) -> dict[str, int]:
    return spool.losses.counts


def sequences(spool: Spool) -> list[int]:
    found: list[int] = []
    while not found or found[-1] < spool.last:
        batch = spool.files.take(found[-1] if found else 0, spool.last, 10**6)
        found += [record.sequence for record in scan(batch.records).records]
    return found


def texts(spool: Spool, after: int = 0) -> list[str]:
    reader = SpoolReader(spool.directory)
    return [
        decode_payload(record.kind, record.payload).text
        for batch in reader.batches(after)
        for record in scan(batch.records).records
        if record.kind == RecordKind.EVENT
    ]
