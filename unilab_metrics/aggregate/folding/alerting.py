"""Alerts as part of the fold: each is an event when it opens and one when it ends. Pure.

Time is that of the updates, and nothing else is asked, so that folding the same journal again
gives the same alerts: none is told twice after an aggregator was killed. What needs a clock (a
source that stalls, a writer that lags) is decided elsewhere and comes as a ``Notice``. An alert is
named by the update sequence of the event that opened it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.alert_data import FINITE_TIMES, OpenAlert
from unilab_metrics.aggregate.folding.alert_tracking import (
    UNKNOWN_NS,
    Hold,
    Places,
    Tracking,
)
from unilab_metrics.aggregate.folding.alert_values import (
    bad_ranks,
    holding,
    holding_now,
    values_of,
)
from unilab_metrics.aggregate.folding.alert_words import (
    nonfinite_words,
    rule_words,
)
from unilab_metrics.aggregate.folding.entries import AlertRules, Notice
from unilab_metrics.aggregate.folding.reduction import Reduced, Supplier
from unilab_metrics.aggregate.folding.reward_alerting import COLLAPSE, RewardAlerting
from unilab_metrics.wording import counted
from unilab_schema.alert_rules import AlertRule, matches, parse_alert_rule
from unilab_schema.alerts import ALERT, ALERT_OVER, opened_by
from unilab_schema.frames import EventFrame
from unilab_schema.reward_collapse import CollapseState

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

MAX_WATCHED = 200_000
"""Tags over all rules of users; what matches beyond is not watched."""
NONFINITE = "nonfinite"
RULE = "rule"
_NONFINITE_HOLD = Hold(0, 1, FINITE_TIMES)
_RULE_CLEAR = 3


class Alerting(RewardAlerting):
    """Of one state, whose data :meth:`pack` brings up to date for a snapshot."""

    def __init__(self, state: AggregatorState) -> None:
        super().__init__(state)
        self._seen_columns = 0
        self._watched = 0
        self._nonfinite = Tracking(_NONFINITE_HOLD)
        self._rules: list[tuple[AlertRule, Tracking]] = []
        self._make_rules(self._data.rules)
        self._grow()
        self._nonfinite.restore(self._data.tracked.get("", []))
        for rule, tracking in self._rules:
            tracking.restore(self._data.tracked.get(rule.text, []))

    def pack(self) -> None:
        """Bring the state's data up to date."""
        tracked = {rule.text: tracking.packed() for rule, tracking in self._rules}
        tracked[""] = self._nonfinite.packed()
        self._data.tracked = {name: packed for name, packed in tracked.items() if packed}

    def take(self, entry: Notice | AlertRules) -> list[Publication]:
        """What the aggregator has decided on: an event, or what alerts there are."""
        if isinstance(entry, AlertRules):
            self._data.rewards = list(entry.rewards)
            return self._take_rules(entry.rules, entry.mono_ns, entry.unix_ns)
        if entry.kind in (ALERT, ALERT_OVER):
            return self._take_notice(entry)
        told = (entry.kind, entry.text, entry.mono_ns, entry.unix_ns, entry.data)
        return [self._state.own_event(*told)]

    def _take_rules(self, texts: Iterable[str], mono_ns: int, unix_ns: int) -> list[Publication]:
        """From here on alerts are computed, by these rules of users beside our own."""
        data = self._data
        kept = list(dict.fromkeys(texts))
        data.is_active = True
        self.pack()
        self._make_rules(kept)
        data.rules = [rule.text for rule, _ in self._rules]
        self._grow()
        for rule, tracking in self._rules:
            tracking.restore(data.tracked.get(rule.text, []))
        gone = [n for n, a in data.open.items() if a.rule == RULE and a.name not in data.rules]
        published = [self._end(n, "the rule was taken away", mono_ns, unix_ns) for n in gone]
        self._find_owners()
        return published

    def take_late(
        self,
        reduced: Reduced,
        suppliers: list[Supplier],
        iteration: int,
        mono_ns: int,
        unix_ns: int,
    ) -> list[Publication]:
        """What values change that came after their iteration was sealed."""
        self._late_iteration = iteration
        try:
            return self.take_update(reduced, suppliers, mono_ns, unix_ns)
        finally:
            self._late_iteration = None

    def take_update(
        self, reduced: Reduced, suppliers: list[Supplier], mono_ns: int, unix_ns: int
    ) -> list[Publication]:
        """What a sealed iteration changes."""
        if not self._data.is_active:
            return []
        if len(self._state.columns.tags) > self._seen_columns:
            self._grow()
        at = (mono_ns, unix_ns)
        published = self._take_nonfinite(reduced, suppliers, *at)
        if self._rules and len(reduced.columns):
            where = np.full(self._seen_columns, -1, dtype=np.intp)
            where[reduced.columns] = np.arange(len(reduced.columns))
            for rule, tracking in self._rules:
                published += self._take_rule(rule, tracking, reduced, where, *at)
        return published + self.take_reward(reduced, *at)

    def new_attempt(self) -> None:
        """What was wrong with the attempt before is not wrong with this one."""
        data = self._data
        data.open, data.groups, data.lately_ns, data.collapse_alert = {}, {}, {}, 0
        data.collapse = CollapseState()
        for tracking in (self._nonfinite, *(tracking for _, tracking in self._rules)):
            tracking.clear()

    def adopt(self, sequence: int, frame: EventFrame) -> None:
        """The history tells of an alert that the wal has lost."""
        data, facts = self._data, frame.data
        if frame.kind == ALERT:
            told, tags = opened_by(sequence, frame), facts.get("tags")
            data.open[sequence] = OpenAlert(
                told.rule,
                str(facts.get("name", "")),
                told.subject,
                told.text,
                told.severity,
                told.iteration,
                told.unix_ns,
                tags if isinstance(tags, int) else 1,
            )
            data.raised += 1
            self._find_owners()
        elif isinstance(alert := facts.get("alert"), int):
            data.open.pop(alert, None)
            data.groups.pop(alert, None)

    # --- rules -----------------------------------------------------------------------------

    def _take_nonfinite(
        self, reduced: Reduced, suppliers: list[Supplier], mono_ns: int, unix_ns: int
    ) -> list[Publication]:
        is_bad = ~np.isfinite(reduced.values)
        number = self._state.data.iterations_sealed
        step = self._nonfinite.step(reduced.columns, is_bad, mono_ns, number)
        published = self._cleared(step, mono_ns, unix_ns)
        if len(step.ripe) and self._may_open("", mono_ns):
            column = int(step.ripe[0])
            value = float(reduced.values[np.searchsorted(reduced.columns, column)])
            tag = self._state.columns.tags[column]
            ranks = bad_ranks(suppliers, column)
            text, facts = nonfinite_words(
                tag, value, len(step.ripe), ranks, self._state.ranks_expected(), self._iteration()
            )
            begun = self._begin(NONFINITE, tag, text, mono_ns, unix_ns, facts)
            published.append(begun)
            self._hold(self._nonfinite, step.ripe, begun.sequence, mono_ns)
        return published

    def _take_rule(
        self,
        rule: AlertRule,
        tracking: Tracking,
        reduced: Reduced,
        where: Places,
        mono_ns: int,
        unix_ns: int,
    ) -> list[Publication]:
        places, values = values_of(tracking.columns, reduced, where)
        if not len(places) and not tracking.is_active:
            return []
        holds = holding(rule, values)
        step = tracking.step(places, holds, mono_ns, self._state.data.iterations_sealed)
        published = self._cleared(step, mono_ns, unix_ns)
        if len(step.ripe) and self._may_open(rule.text, mono_ns):
            column = int(tracking.columns[step.ripe[0]])
            value = float(reduced.values[np.searchsorted(reduced.columns, column)])
            tag = self._state.columns.tags[column]
            text, facts = rule_words(rule, tag, value, len(step.ripe), self._iteration())
            begun = self._begin(RULE, tag, text, mono_ns, unix_ns, facts)
            published.append(begun)
            self._hold(tracking, step.ripe, begun.sequence, mono_ns)
        return published

    def _make_rules(self, texts: Iterable[str]) -> None:
        self._rules = []
        for text in texts:
            rule = None
            # Of a version that knows more. It is in the journal, so whatever is raised would meet
            # every aggregator that comes after this one.
            with suppress(Exception):
                rule = parse_alert_rule(text)
            if rule is None:
                continue
            hold = Hold(round(rule.hold_s * 1e9), rule.hold_iterations, _RULE_CLEAR)
            self._rules.append((rule, Tracking(hold)))
        self._watched, self._seen_columns = 0, 0

    def _grow(self) -> None:
        """New tags: whom they concern."""
        tags = self._state.columns.tags
        known = len(self._nonfinite.columns)
        self._nonfinite.grow(range(known, len(tags)))
        new = tags[self._seen_columns :]
        for rule, tracking in self._rules:
            found = [
                column for column, tag in enumerate(new, self._seen_columns) if matches(rule, tag)
            ]
            if self._watched + len(found) > MAX_WATCHED:
                found = found[: MAX_WATCHED - self._watched]
                text = f"alert rules match more than {counted(MAX_WATCHED, 'tag')}"
                self._state.data.count_warning(text, {})
            self._watched += len(found)
            tracking.grow(found)
        self._seen_columns = len(tags)

    def _find_owners(self) -> None:
        """Of alerts that only the history tells of: their first tag, and if they had more, those
        on which their condition holds now."""
        data = self._data
        tracks = {rule.text: (rule, tracking) for rule, tracking in self._rules}
        for sequence, alert in data.open.items():
            if alert.rule == COLLAPSE:
                data.collapse_alert, data.collapse.is_collapsed = sequence, True
                data.reward_tag = alert.subject
                data.reward_seen = (UNKNOWN_NS, self._state.data.iterations_sealed)
            own = (None, self._nonfinite) if alert.rule == NONFINITE else None
            if (watched := own or tracks.get(alert.name)) is None or sequence in data.groups:
                continue
            rule, tracking = watched
            column = self._state.columns.known(alert.subject)
            place = None if column is None else tracking.place(column)
            places = np.array([] if place is None else [place], dtype=np.intp)
            if alert.tags > 1:
                state = self._state
                newest = (state.latest_values, state.latest_updates)
                more = tracking.free(holding_now(rule, tracking.columns, *newest))
                places = np.union1d(places, more)
            if len(places):
                self._hold(tracking, places, sequence, UNKNOWN_NS)
