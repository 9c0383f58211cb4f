"""What the bus says of itself: back-pressure, losses and its own cost, tags ``Bus/…``.

They are measured by sources and the aggregator and join an update about four times a second
at most, so a training pays nothing for them. Counters never fall within an attempt. Nobody
else may log these tags.
"""

from __future__ import annotations

from unilab_schema.metric_spec import MetricSpec, OverRanks

DROPPED_PREFIX = "Bus/dropped/"
"""Followed by the reason; a reason that never occurred has no tag."""
TROUBLE_PREFIX = "Bus/trouble/"
"""Followed by what happened and cost no frame; as above."""


def _bus(name: str, unit: str, over_ranks: OverRanks, label: str, description: str) -> MetricSpec:
    return MetricSpec(
        f"Bus/{name}",
        "bus",
        unit,
        over_ranks,
        label=label,
        description=description,
        logger_owned=True,
    )


BUS: tuple[MetricSpec, ...] = (
    _bus(
        "backlog_frames",
        "frames",
        "sum",
        "Backlog",
        "Frames that were logged and, as far as their sources know, not journaled yet.",
    ),
    _bus(
        "ack_latency_ms",
        "ms",
        "max",
        "Ack Latency",
        "Longest time of the last second or two from a log() to the answer that it is journaled.",
    ),
    _bus(
        "publish_us",
        "us",
        "mean",
        "Publish Cost",
        "Time inside log(), mean over all calls since the last figure.",
    ),
    _bus("late_values", "values", "sum", "Late", "Values whose sealed iteration had their tag."),
    _bus("duplicate_frames", "frames", "sum", "Duplicates", "Frames that came more than once."),
    _bus("lost_frames", "frames", "sum", "Lost", "Frames that no spool holds any more: gaps."),
    _bus("refused_frames", "frames", "sum", "Refused", "Frames quarantined, or beyond a limit."),
    _bus("bad_messages", "messages", "sum", "Bad Messages", "Messages that no part could read."),
    _bus("commit_ms", "ms", "rank0", "Commit", "Mean time of a journal commit."),
)

BUS_FAMILY = MetricSpec(
    f"{DROPPED_PREFIX}*",
    "bus",
    "calls",
    "sum",
    description="What could not be logged, by reason, since the attempt's sources started.",
    logger_owned=True,
)
TROUBLE_FAMILY = MetricSpec(
    f"{TROUBLE_PREFIX}*",
    "bus",
    "times",
    "sum",
    description="What happened and cost no frame (a refused key), since the attempt's sources "
    "started.",
    logger_owned=True,
)
