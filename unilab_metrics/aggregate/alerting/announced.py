"""The open alerts as every head tells them: bounded, the newest of them. Pure."""

from __future__ import annotations

from unilab_metrics.aggregate.folding.alert_data import AlertData
from unilab_schema.alerts import AlertStatus

MAX_TOLD = 16


def told_alerts(alerts: AlertData) -> tuple[AlertStatus, ...]:
    """The newest open alerts, as they are announced, oldest first."""
    newest = [*alerts.open.items()][-MAX_TOLD:]
    return tuple(
        AlertStatus(n, a.rule, a.subject, a.text, a.severity, a.iteration, a.unix_ns)
        for n, a in newest
    )
