"""What a run lacks, in one line of text: how much, of what and whose, under which names. Each is said
once, and again when it is another one. Pure."""

from __future__ import annotations

from collections.abc import Callable

from unilab_sidecar.alerting.alerts import Alert, alerts
from unilab_sidecar.alerting.dropped_alert import BEGINS
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.picture import Picture

SHOWN = 4
"""Names of what could not be logged."""


def missing(picture: Picture, is_said: Callable[[str], bool]) -> list[str]:
    """``dropped 9 values that are no number (learner of rank 0): Loss/a``; only ``dropped 10`` once
    all that ``is_said``; empty if nobody knows."""
    if picture.dropped is None:
        return []
    counts = f"dropped {picture.dropped}"
    alert = _of_counts(picture)
    if alert is None:
        return [counts]
    detail = "" if is_said(alert.text) else alert.text.removeprefix(BEGINS)
    if detail:
        counts = f"dropped {detail}" if _is_all(picture) else f"{counts}: {detail}"
    names = refused(picture)
    if names and not is_said(names):
        counts += f": {names}"
    return [counts]


def is_counted(alert: Alert, picture: Picture) -> bool:
    """Whether :func:`missing` says it."""
    return picture.dropped is not None and alert.text.startswith(BEGINS)


def refused(picture: Picture) -> str:
    """The first names of what could not be logged, and how many more there are."""
    names = ", ".join(map(clean, picture.refused[:SHOWN]))
    more = len(picture.refused) - SHOWN + picture.refused_more
    return names + (f" and {more:,} more" if more > 0 else "")


def refused_apart(picture: Picture) -> str:
    """The same, where :func:`missing` does not say it."""
    return refused(picture) if _of_counts(picture) is None else ""


def _of_counts(picture: Picture) -> Alert | None:
    return next((alert for alert in alerts(picture) if is_counted(alert, picture)), None)


def _is_all(picture: Picture) -> bool:
    """Whether one reason of one process is all that is missing."""
    counts = [count for source in picture.sources for count in source.drops.values() if count]
    return counts == [picture.dropped]
