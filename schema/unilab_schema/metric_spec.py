"""What one metric means. The table of all of them is ``unilab_schema.metrics``."""

from __future__ import annotations

from typing import Literal

import msgspec

METRIC_SCHEMA_VERSION = 1

OverRanks = Literal["mean", "sum", "rank0", "min", "max"]
OverTime = Literal["last", "mean", "max", "min", "sum"]


class MetricSpec(msgspec.Struct, frozen=True, array_like=True):
    """What a tag, or every tag that matches a pattern, means.

    ``tag``: a tag, or a pattern whose one ``*`` stands for any non-empty rest. ``over_ranks``:
    reduction over the ranks that supplied a value. ``over_time``: reduction within a source
    over the reports of one iteration; ``last``, ``max`` and ``min`` are states and hold until
    the next report while the source lives, ``mean`` and ``sum`` are flows and are absent in an
    iteration without a report. ``persisted``: false for terminal-only tags, which travel in
    updates but reach no backend. ``logger_owned``: assembled by the logger (phases, episode
    statistics); in strict mode a caller may not log it. ``label``: the terminal's short name.
    """

    tag: str
    owner: str
    unit: str
    over_ranks: OverRanks = "mean"
    over_time: OverTime = "last"
    description: str = ""
    persisted: bool = True
    logger_owned: bool = False
    label: str = ""
