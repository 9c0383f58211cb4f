"""The aggregator's part in alerts: turning them on, watching the clock, telling the webhook."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unilab_metrics.aggregate.alerting import failures, falling_behind, lagging, stalls
from unilab_metrics.aggregate.alerting.change import Change
from unilab_metrics.aggregate.alerting.webhook import Webhook
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import AlertRules, Notice
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.writers import Writers
from unilab_metrics.said_once import SaidOnce
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.webhook_url import checked_url
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.known_names import NAMES
from unilab_schema.updates import EventUpdate

LOOK_NS = 1_000_000_000
_SENT = frozenset({ALERT, ALERT_OVER, "lost", "returned"})


class Alerts:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        core: Core,
        writers: Writers,
        options: Options,
        *,
        peer: Callable[[SourceState], Peer],
        run_dir: Path,
    ) -> None:
        self._core, self._writers, self._peer, self._run_dir = core, writers, peer, run_dir
        self._stalls, self._lagging = stalls.Stalls(), lagging.Lagging()
        self._falling_behind = falling_behind.FallingBehind()
        self._looked_ns = 0
        self._waiting: list[tuple[int, EventUpdate]] = []
        self._webhook = _webhook(options.alert_webhook, bus_directory(run_dir))
        self._webhook_failures = SaidOnce()
        core.heed = self._heed
        data = core.state.data.alerts
        wanted = list(dict.fromkeys(options.alerts))
        rewards = NAMES["reward"]
        if not data.is_active or data.rules != wanted or data.rewards != list(rewards):
            now = time.monotonic_ns(), time.time_ns()
            core.fold(AlertRules(tuple(wanted), *now, rewards))
        self._send_again()

    @property
    def webhook_trouble(self) -> str:
        """What could not be delivered; empty for nothing."""
        return "" if self._webhook is None else self._webhook.trouble

    def resumed(self, paused_ns: int) -> None:
        """The aggregator stood still for so long."""
        self._stalls.resumed(paused_ns / 1e9)

    def look(self) -> None:
        """Once a second: what has stalled, failed or lags, and what has ended of that."""
        now = time.monotonic_ns()
        core = self._core
        if now - self._looked_ns < LOOK_NS or core.state.data.ended is not None:
            return
        self._looked_ns = now
        state, data = core.state, core.state.data
        changes = self._stalls.look(now / 1e9, self._seen(now), self._opened(stalls.RULE))
        changes += failures.look(data.sources, data.attempt, self._opened(failures.RULE))
        learners = [s for s in state.live_learners() if s.attempt == data.attempt]
        late = self._opened(falling_behind.RULE)
        changes += self._falling_behind.look(learners, data.last_iteration, late)
        committed, behind = core.journal.committed_update, self._opened(lagging.RULE)
        changes += self._lagging.look(now / 1e9, committed, self._writers.statuses(), behind)
        for change in changes:
            core.fold(_notice(change, now))

    def _opened(self, rule: str) -> frozenset[str]:
        """Subjects of its open alerts."""
        alerts = self._core.state.data.alerts.open.values()
        return frozenset(one.subject for one in alerts if one.rule == rule)

    def deliver(self) -> None:
        """Hand over what the journal has to the webhook."""
        self._say_webhook()
        if not self._waiting or self._core.journal.has_uncommitted:
            return
        waiting, self._waiting = self._waiting, []
        for sequence, entry in waiting:
            if self._webhook is not None:
                self._webhook.send(sequence, self._body(sequence, entry))

    def close(self) -> None:
        """At the aggregator's end; takes at most the webhook's time."""
        self._core.heed = _ignore
        if self._webhook is not None:
            self.deliver()
            self._webhook.close()
            self._say_webhook()

    def _say_webhook(self) -> None:
        """In the log: that alerts are not delivered, and that they are again."""
        hook, failures = self._webhook, self._webhook_failures
        if hook is None or not (hook.failing or failures.is_failing):
            return
        if why := hook.failing:
            text = failures.fails(why, hook.trouble)
        else:
            text = failures.works(f"alert webhook at {hook.host}: delivers again")
        if text:
            say(text)

    def _heed(self, published: list[Publication]) -> None:
        for sequence, entry, _ in published:
            if isinstance(entry, EventUpdate) and entry.source is None:
                frame = entry.frame
                if frame.kind in (ALERT, ALERT_OVER):
                    say(f"{frame.kind.replace('_', ' ')}: {frame.text}")
                if frame.kind in _SENT and self._webhook is not None:
                    self._waiting.append((sequence, entry))

    def _seen(self, now: int) -> list[stalls.Seen]:
        return [
            stalls.Seen(
                source.name,
                source.frames,
                (now - self._peer(source).heard_mono_ns) / 1e9,
                self._core.state.data.last_iteration,
            )
            for source in self._core.state.data.sources
            if source.status == "live" and source.ended is None
        ]

    def _send_again(self) -> None:
        if self._webhook is None:
            return
        for sequence, alert in self._core.state.data.alerts.open.items():
            if sequence > self._webhook.delivered_through:
                facts = {"rule": alert.rule, "subject": alert.subject, "severity": alert.severity}
                body = self._about(sequence, "open", alert.text, alert.iteration, alert.unix_ns)
                self._webhook.send(sequence, body | facts | {"facts": {}})

    def _body(self, sequence: int, entry: EventUpdate) -> dict[str, Any]:
        frame = entry.frame
        is_over = frame.kind in (ALERT_OVER, "returned")
        body = self._about(
            sequence, "over" if is_over else "open", frame.text, frame.iteration, frame.unix_ns
        )
        facts: dict[str, Any] = dict(frame.data)
        opening = facts.pop("alert", sequence)
        rule = facts.pop("rule", "lost_source")
        subject = facts.pop("subject", None) or self._named_in(frame.text)
        severity = facts.pop("severity", "bad")
        about = {"alert": self._id(opening), "rule": rule, "subject": subject}
        return body | about | {"severity": severity, "facts": facts}

    def _named_in(self, text: str) -> str:
        """The source with which the words of a loss or a return begin."""
        names = (source.name for source in self._core.state.data.sources)
        return next((name for name in names if text.startswith(f"{name} ")), text)

    def _about(
        self, sequence: int, state: str, text: str, iteration: int | None, unix_ns: int
    ) -> dict[str, Any]:
        data = self._core.state.data
        run = {"name": self._run_dir.name, "algorithm": data.run.algorithm, "task": data.run.task}
        return {
            "schema": "unilab-metrics-alert/1",
            "id": self._id(sequence),
            "alert": self._id(sequence),
            "state": state,
            "text": text,
            "iteration": iteration,
            "unix_s": unix_ns / 1e9,
            "run": run | {"attempt": data.attempt},
        }

    def _id(self, sequence: Any) -> str:
        return f"{self._core.epoch.journal.hex()}-{sequence}"


def _notice(change: Change, mono_ns: int) -> Notice:
    facts = {**change.facts, "rule": change.rule, "subject": change.subject}
    kind = ALERT if change.began else ALERT_OVER
    return Notice(kind, change.text, mono_ns, time.time_ns(), facts)


def _webhook(url: str, bus_dir: Path) -> Webhook | None:
    if not url:
        return None
    try:
        return Webhook(checked_url(url), bus_dir)
    except ValueError as error:
        say(str(error))
        return None


def _ignore(_published: list[Publication]) -> None:
    return
