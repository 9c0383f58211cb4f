"""Whether a spool is that of a training's first learner, which has not said goodbye."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments, read_segment
from unilab_metrics.storage.spool_reader import SOURCE_KINDS, SPOOL_PREFIX, SpoolReader
from unilab_schema.codec import RecordKind
from unilab_schema.identity import LEARNER


def is_of_open_rank_zero(spool: Path) -> bool:
    """Whether a learner of rank 0 logs into it and has not closed; whether its process lives is
    another question. Raises ``OSError`` and ``StorageError``."""
    identity = SpoolReader(spool).identity
    if identity is None or identity.key.role != LEARNER or identity.key.rank != 0:
        return False
    segments = list_segments(spool, SPOOL_PREFIX)
    records = scan(read_segment(segments[-1]), kinds=SOURCE_KINDS).records if segments else []
    return all(record.kind != RecordKind.END for record in records)
