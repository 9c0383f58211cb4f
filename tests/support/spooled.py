"""Publishers without an aggregator: what they logged is read from their spool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from receiving_end import decode_values

from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, decode_payload
from unilab_schema.identity import RunInfo, SourceKey

Make = Callable[..., Publisher]
"""The fixture ``make``."""


def spooled_publisher(
    directory: Path,
    *,
    role: str = "learner",
    algorithm: str = "sac",
    strict: bool = False,
    rank: int = 0,
    **options: Any,
) -> Publisher:
    return open_publisher(
        SourceKey(rank, role),
        RunInfo(algorithm, strict=strict),
        launch_directory=directory / "launch",
        find_bus=options.pop("find_bus", lambda: None),
        **options,
    )


def payloads(directory: Path) -> list[tuple[int, int, Any]]:
    """(sequence, kind, payload) of every record in the spool."""
    return [
        (record.sequence, record.kind, decode_payload(record.kind, record.payload))
        for batch in SpoolReader(directory).batches()
        for record in scan(batch.records).records
    ]


def payloads_of(publisher: Publisher) -> list[tuple[int, int, Any]]:
    return payloads(Path(publisher.identity.spool_path))


def of_kind(publisher: Publisher, kind: RecordKind) -> list[Any]:
    return [payload for _, found, payload in payloads_of(publisher) if found == kind]


def values_of(publisher: Publisher) -> list[dict[str, float]]:
    return decode_values(payloads_of(publisher))


def warnings_of(publisher: Publisher) -> list[str]:
    return [e.text for e in of_kind(publisher, RecordKind.EVENT) if e.kind == "warning"]
