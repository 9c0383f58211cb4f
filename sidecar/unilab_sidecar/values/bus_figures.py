"""What is known of the bus itself: back-pressure, and the aggregator's books. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from unilab_schema.control import Head
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.groups import grouping
from unilab_sidecar.picture import BusFigures, Journal, Reading
from unilab_sidecar.progress.standing import SILENT_AFTER_S
from unilab_sidecar.values.bus_courses import BusCourses


def journal(head: Head | None, summary: Summary | None) -> Journal:
    """The books as of the newest announcement, or of what the run says of itself after its end."""
    if summary is not None:
        updates = summary.updates
        return Journal(updates, updates, summary.late_values, summary.quarantined)
    if head is None:
        return Journal()
    return Journal(head.update, head.durable, head.late_values, head.quarantined, head.journal_full)


def bus_figures(
    head: Head | None,
    readings: Mapping[str, Reading],
    courses: BusCourses,
    *,
    has_ended: bool = False,
) -> BusFigures:
    """Back-pressure from the updates, or while none can be written, from the sources' own word;
    none after the end, when what the last updates say of it holds no more."""
    backlog, ack = readings.get(grouping.BACKLOG), readings.get(grouping.ACK_LATENCY)
    if has_ended:
        backlog = ack = None
    elif head is not None and head.journal_full:
        waiting = [source.figures.backlog for source in head.sources if source.figures is not None]
        backlog, ack = Reading(float(sum(waiting))) if waiting else None, None
    bad_messages = head.bad_messages if head else 0
    return BusFigures(backlog, ack, readings.get(grouping.PUBLISH_COST), bad_messages, courses)


def announced_node(head: Head | None, head_age_s: float) -> dict[str, Reading]:
    """What the newest announcement says of the node: where it does, no update of late says it."""
    if head is None:
        return {}
    stale_s = None if head_age_s <= SILENT_AFTER_S else head_age_s
    return {tag: Reading(value, stale_s) for tag, value in head.node.items()}
