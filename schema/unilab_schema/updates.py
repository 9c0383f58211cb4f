"""What the aggregator publishes: the payloads of history records.

The record's sequence is the update sequence, the run's one total order. ``Update`` and
``Supplement`` refer to an :class:`UpdateLayout` record of the same segment (each segment
repeats the layouts that it uses, so it can be read alone).
"""

from __future__ import annotations

import msgspec

from unilab_schema.frames import BlobFrame, EventFrame, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey

BLOCK_ENTRIES = 1024
"""History entries that one :class:`BinBlock` covers, beginning with the first."""


class UpdateLayout(msgspec.Struct, frozen=True, array_like=True):
    """Tags of an update, in the order of its values. Carries no update sequence (0)."""

    layout: int
    tags: tuple[str, ...]


class Update(msgspec.Struct, frozen=True, array_like=True):
    """One sealed, reduced iteration.

    ``unix_ns``: wall clock of rank 0's frame (else of the lowest rank that reported).
    ``sealed_mono_ns``: the aggregator's monotonic clock; two-second windows lie on it.
    ``elapsed_s``: training time since warm-up, earlier attempts included.
    ``env_steps``: sum over ranks, never falling; ``None`` while nobody counts.
    ``ranks_reported`` of ``ranks_expected`` learner ranks supplied the iteration.
    ``values``: packed little-endian float64, NaN and infinities included.
    """

    attempt: int
    iteration: int
    env_steps: int | None
    unix_ns: int
    sealed_mono_ns: int
    elapsed_s: float
    ranks_reported: int
    ranks_expected: int
    layout: int
    values: bytes
    missing_ranks: tuple[int, ...] = ()


class Supplement(msgspec.Struct, frozen=True, array_like=True):
    """Values for an iteration that was sealed without them: only tags that it lacks."""

    attempt: int
    iteration: int
    env_steps: int | None
    unix_ns: int
    sealed_mono_ns: int
    elapsed_s: float
    layout: int
    values: bytes


class PointsUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A source's points, passed on as they are."""

    attempt: int
    source: SourceKey
    frame: PointsFrame


class EventUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A source's event, or the aggregator's own (``source`` is ``None``): a lost rank, an alert."""

    attempt: int
    source: SourceKey | None
    frame: EventFrame


class BlobUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A source's blob chunk, passed on as it is."""

    attempt: int
    source: SourceKey
    frame: BlobFrame


class AttemptOpened(msgspec.Struct, frozen=True, array_like=True):
    """A start or restart of the training; later updates carry its number (from 1)."""

    attempt: int
    unix_ns: int
    run: RunInfo
    elapsed_s: float = 0.0


class RunEnded(msgspec.Struct, frozen=True, array_like=True):
    """The last record of an attempt's history. ``status`` as in ``run_summary.json``."""

    attempt: int
    status: str
    unix_ns: int
    text: str = ""


class BinBlock(msgspec.Struct, frozen=True, array_like=True):
    """A thousand updates in brief, for pictures of long runs. Carries no update sequence (0).

    It covers the updates and supplements among the history entries ``first..last`` (older blocks:
    updates only); ``*_range`` are the values of their first and last update. Per tag, packed
    little-endian float64 in the order of ``tags``: ``minimum``, ``maximum`` and ``mean`` over the
    finite values (NaN where there is none), ``count`` of finite values, the ``latest`` value as it
    was, and how many were ``not_finite`` (empty in older blocks).
    Large blocks come in ``parts`` records, each with its own tags. With ``points`` it covers points
    and not updates: their steps count as iterations, and nothing is known of ``env_steps``; a
    record for all tags whose steps and times are the same.
    """

    first: int
    last: int
    attempt: int
    iteration_range: tuple[int, int]
    env_steps_range: tuple[int, int] | None
    unix_ns_range: tuple[int, int]
    elapsed_s_range: tuple[float, float]
    tags: tuple[str, ...]
    minimum: bytes
    maximum: bytes
    mean: bytes
    count: bytes
    latest: bytes
    part: int = 0
    parts: int = 1
    not_finite: bytes = b""
    points: bool = False


HistoryEntry = (
    UpdateLayout
    | Update
    | Supplement
    | PointsUpdate
    | EventUpdate
    | BlobUpdate
    | AttemptOpened
    | RunEnded
)
