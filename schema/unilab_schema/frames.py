"""What a source logs: the payloads of spool records, one struct per record kind.

Values are positional. A source announces a :class:`Layout` (a list of tags) once per key
set and then sends packed little-endian float64 (``struct`` format ``<d``), in the layout's
order. All structs are msgpack arrays; fields are only ever appended, with defaults.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from unilab_schema.metrics import MetricSpec

Scalar = str | int | float | bool | None


class Layout(msgspec.Struct, frozen=True, array_like=True):
    """Tags of a key set, in order. A large one comes in ``parts`` records, ``part`` from 0."""

    layout: int
    tags: tuple[str, ...]
    part: int = 0
    parts: int = 1


class IterationFrame(msgspec.Struct, frozen=True, array_like=True):
    """A learner's values of one iteration, aligned over ranks.

    ``values``: packed totals; ``weights``: packed weights in the same order, or empty when
    every weight is 1, so that mean = total / weight and partials merge by addition.
    ``more``: this call does not complete the iteration. ``already_reduced``: a library has
    reduced the values over ranks itself; they count from rank 0 only.
    ``env_steps``: this rank's own counter, cumulative over the run.
    """

    layout: int
    iteration: int
    env_steps: int | None
    mono_ns: int
    unix_ns: int
    values: bytes
    weights: bytes = b""
    more: bool = False
    already_reduced: bool = False


class ReportFrame(msgspec.Struct, frozen=True, array_like=True):
    """A collector's report, on its own clock; see ``IterationFrame`` for the fields."""

    layout: int
    env_steps: int | None
    mono_ns: int
    unix_ns: int
    values: bytes
    weights: bytes = b""


class SparseFrame(msgspec.Struct, frozen=True, array_like=True):
    """An iteration or report of a source that has used up its layouts.

    ``tags``: packed little-endian uint32 numbers announced by :class:`TagNames`;
    ``iteration`` is ``None`` for a report.
    """

    tags: bytes
    iteration: int | None
    env_steps: int | None
    mono_ns: int
    unix_ns: int
    values: bytes
    weights: bytes = b""
    more: bool = False
    already_reduced: bool = False


class TagNames(msgspec.Struct, frozen=True, array_like=True):
    """Numbers ``first, first + 1, ...`` for the tags of later sparse frames."""

    first: int
    tags: tuple[str, ...]


class Point(msgspec.Struct, frozen=True, array_like=True):
    """One value on an axis of its own; never aligned, merged or reduced."""

    tag: str
    value: float
    step: int
    unix_ns: int


class PointsFrame(msgspec.Struct, frozen=True, array_like=True):
    """Points of SummaryWriter-like callers, evaluation jobs and ``<tag>/time`` curves."""

    points: tuple[Point, ...]


class EventFrame(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened: kinds are ``status``, ``checkpoint``, ``file``, ``config``,
    ``training_started``, ``summary`` (fields for ``run_summary.json``) and ``warning``."""

    kind: str
    text: str
    mono_ns: int
    unix_ns: int
    iteration: int | None = None
    data: dict[str, Scalar] = {}


class SpanFrame(msgspec.Struct, frozen=True, array_like=True):
    """A named stretch of monotonic time on one thread or stream, for traces."""

    name: str
    category: str
    track: str
    start_mono_ns: int
    duration_ns: int
    args: dict[str, Scalar] = {}


BlobKind = Literal["text", "histogram", "image", "json"]


class BlobFrame(msgspec.Struct, frozen=True, array_like=True):
    """A chunk of a larger thing. ``blob`` numbers it within its source.

    ``histogram`` data is msgpack ``[limits, counts, min, max, total, sum, sum_squares]``,
    bucketed in the caller; ``image`` data is an encoded PNG or JPEG with its ``mime``.
    """

    blob: int
    kind: BlobKind
    tag: str
    step: int
    unix_ns: int
    data: bytes
    part: int = 0
    parts: int = 1
    mime: str = ""


class DefinitionFrame(msgspec.Struct, frozen=True, array_like=True):
    """A user's ``define_metric``: the spec holds for tags that match its pattern."""

    spec: MetricSpec


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Sequences ``first..last`` that the source cannot supply, and why; counted as lost."""

    first: int
    last: int
    reason: str


class Drops(msgspec.Struct, frozen=True, array_like=True):
    """What a source could not log since it started, by reason; the newest record counts.
    ``troubles``: what it has met and lost nothing by, by name."""

    counts: dict[str, int]
    troubles: dict[str, int] = {}


class End(msgspec.Struct, frozen=True, array_like=True):
    """The last record of a source that closed in order. ``status``: see ``run_summary.json``."""

    status: str
    mono_ns: int
    unix_ns: int
    drops: dict[str, int] = {}
    troubles: dict[str, int] = {}


Frame = (
    Layout
    | IterationFrame
    | ReportFrame
    | SparseFrame
    | TagNames
    | PointsFrame
    | EventFrame
    | SpanFrame
    | BlobFrame
    | DefinitionFrame
    | Gap
    | Drops
    | End
)
