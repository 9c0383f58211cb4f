"""Which alerts are open, and the events that open and end them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.alert_data import AlertData, OpenAlert
from unilab_metrics.aggregate.folding.alert_tracking import Places, Step, Tracking
from unilab_metrics.aggregate.folding.alert_words import gone_words, recovered_words
from unilab_metrics.aggregate.folding.entries import Notice
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.frames import Scalar

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

MAX_OPEN = 256
MAX_OPENED = 6
OPENED_WITHIN_NS = 60_000_000_000
"""A rule opens at most so many alerts within a minute; what is due beyond waits, and is one
then."""


class AlertBooks:
    """Of one state."""

    def __init__(self, state: AggregatorState) -> None:
        self._state = state
        self._late_iteration: int | None = None

    @property
    def _data(self) -> AlertData:
        return self._state.data.alerts

    def is_open(self, rule: str, subject: str) -> bool:
        """Whether an alert of that kind about that subject has not ended."""
        return self.opened(rule, subject) is not None

    def opened(self, rule: str, subject: str) -> int | None:
        """The open alert of that kind about that subject."""
        found = (
            n for n, one in self._data.open.items() if (one.rule, one.subject) == (rule, subject)
        )
        return next(found, None)

    def _take_notice(self, entry: Notice) -> list[Publication]:
        """An alert that somebody else has decided on, or its end; each once."""
        facts, mono_ns, unix_ns = entry.data, entry.mono_ns, entry.unix_ns
        rule, subject = str(facts.get("rule", "")), str(facts.get("subject", ""))
        known = self.opened(rule, subject)
        if entry.kind == ALERT_OVER:
            return [] if known is None else [self._end(known, entry.text, mono_ns, unix_ns)]
        if known is not None or len(self._data.open) >= MAX_OPEN:
            return []
        return [self._begin(rule, subject, entry.text, mono_ns, unix_ns, facts)]

    def _begin(
        self,
        rule: str,
        subject: str,
        text: str,
        mono_ns: int,
        unix_ns: int,
        facts: Mapping[str, Scalar],
    ) -> Publication:
        told: dict[str, Scalar] = {"severity": "bad", **facts, "rule": rule, "subject": subject}
        begun = self._state.own_event(ALERT, text, mono_ns, unix_ns, told, self._iteration())
        data = self._data
        data.raised += 1
        while len(data.open) >= MAX_OPEN:
            # A journal's damage may leave some that nobody ends.
            oldest = next(iter(data.open))
            del data.open[oldest]
            data.groups.pop(oldest, None)
        severity, name = str(told["severity"]), str(told.get("name", ""))
        data.open[begun.sequence] = OpenAlert(
            rule,
            name,
            subject,
            text,
            severity,
            self._iteration(),
            unix_ns,
            tags if isinstance(tags := told.get("tags"), int) else 1,
        )
        return begun

    def _end(self, alert: int, text: str, mono_ns: int, unix_ns: int) -> Publication:
        data = self._data
        known = data.open.pop(alert)
        data.groups.pop(alert, None)
        facts: dict[str, Scalar] = {"alert": alert, "rule": known.rule, "subject": known.subject}
        facts["severity"] = known.severity
        if known.name:
            facts["name"] = known.name
        if isinstance(known.iteration, int):
            facts["since_iteration"] = known.iteration
        return self._state.own_event(ALERT_OVER, text, mono_ns, unix_ns, facts, self._iteration())

    def _hold(self, tracking: Tracking, places: Places, alert: int, mono_ns: int) -> None:
        tracking.tell(places, alert, mono_ns, self._state.data.iterations_sealed)
        self._data.groups[alert] = len(places)

    def _cleared(self, step: Step, mono_ns: int, unix_ns: int) -> list[Publication]:
        data = self._data
        published: list[Publication] = []
        for counts in (step.cleared, step.gone):
            for alert, count in counts.items():
                left = data.groups.get(alert, 0) - count
                if left > 0:
                    data.groups[alert] = left
                elif (known := data.open.get(alert)) is not None:
                    is_gone = counts is step.gone
                    iteration = self._iteration()
                    text = gone_words(known) if is_gone else recovered_words(known, iteration)
                    published.append(self._end(alert, text, mono_ns, unix_ns))
        return published

    def _may_open(self, name: str, mono_ns: int) -> bool:
        lately = [
            at for at in self._data.lately_ns.get(name, []) if 0 <= mono_ns - at < OPENED_WITHIN_NS
        ]
        if len(lately) >= MAX_OPENED or len(self._data.open) >= MAX_OPEN:
            return False
        self._data.lately_ns[name] = [*lately, mono_ns]
        return True

    def _iteration(self) -> int | None:
        late, last = self._late_iteration, self._state.data.last_iteration
        return last if late is None else late
