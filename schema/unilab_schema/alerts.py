"""Alerts as events, and the open ones as they are announced. Pure.

An alert is an event of kind ``alert`` without a source, and is named by that event's update
sequence. Its end is an event of kind ``alert_over`` whose data names it as ``alert``. Both have in
their data ``rule`` (its kind) and ``subject``; the first also ``severity`` (``warn`` or ``bad``).
"""

from __future__ import annotations

import msgspec

from unilab_schema.frames import EventFrame

ALERT = "alert"
ALERT_OVER = "alert_over"


class AlertStatus(msgspec.Struct, frozen=True, array_like=True):
    """An open alert. ``alert``: the update sequence of the event that opened it. ``unix_ns``: the
    aggregator's wall clock then."""

    alert: int
    rule: str
    subject: str
    text: str
    severity: str
    iteration: int | None
    unix_ns: int


def opened_by(sequence: int, frame: EventFrame) -> AlertStatus:
    """The alert that an event of kind ``alert`` opens. ``sequence``: the event's update sequence."""
    facts = frame.data
    return AlertStatus(
        sequence,
        str(facts.get("rule", "")),
        str(facts.get("subject", "")),
        frame.text,
        str(facts.get("severity", "bad")),
        frame.iteration,
        frame.unix_ns,
    )
