"""What ``verify`` says of one process: what the journal has of it, and whether it lives now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.orphans import is_out_of_sight, runs_here
from unilab_schema.identity import Identity, SourceKey

FINISHED = "finished"
LIVE = "live"
LOST = "lost"
"""The aggregator has seen that it is gone."""
GONE = "gone"
"""The journal takes it for live, and its lease is free."""
ELSEWHERE = "elsewhere"
"""The journal takes it for live; it is, or was, on another node, in another container of this one,
or before a restart of it."""


class SourceFacts(NamedTuple):
    """One process. ``state``: one of the constants above. ``journaled``: records; ``lost``:
    sequences that are in no record, and ``reasons`` as far as the wal says them. ``goodbye``:
    whether its End record is there, which makes the counts exact. ``waiting``: records in its
    spool that the journal lacks, ``None`` if the spool is not here. ``drops``: calls that never
    got a sequence; ``troubles``: what it has met and lost nothing by. ``refused``: records that
    are journaled and could not be used. ``is_at_most``: the history may have what some of the lost
    ones said."""

    key: SourceKey
    pid: int
    host: str
    attempt: int
    state: str
    journaled: int
    lost: int
    reasons: dict[str, int]
    goodbye: bool
    waiting: int | None
    drops: dict[str, int]
    troubles: dict[str, int]
    refused: int = 0
    is_at_most: bool = False


def source_facts(
    source: SourceState, reasons: Mapping[str, int], waiting: int | None
) -> SourceFacts:
    """Asks the process's lease if the journal does not know its end. Raises ``OSError``."""
    identity = source.identity
    return SourceFacts(
        identity.key,
        identity.pid,
        identity.host,
        source.attempt,
        FINISHED if source.ended is not None else _state_now(source),
        source.cursor - source.lost_frames,
        source.lost_frames,
        dict(reasons),
        source.ended is not None,
        waiting,
        source.dropped(),
        dict(source.troubles),
        source.quarantined,
        source.perhaps_lost > 0,
    )


def _state_now(source: SourceState) -> str:
    if source.status != LIVE:
        return source.status
    identity = source.identity
    if runs_here(identity):
        return LIVE
    if is_out_of_sight(identity):
        return ELSEWHERE
    return LIVE if _is_held(identity) else GONE


def _is_held(identity: Identity) -> bool:
    path = Path(identity.lease_path)
    return path.is_absolute() and settled_pid(path) is not None
