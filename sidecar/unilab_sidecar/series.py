"""Batches in, a picture out: everything that the screen computes from updates. Pure.

No clock is read here: ages come from the aggregator's clock in the announcements plus the
feed's ``head_age_s``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from unilab_metrics.subscribe.ssh.target import host_of
from unilab_schema.control import Head
from unilab_schema.known_names import tag_of
from unilab_schema.updates import (
    AttemptOpened,
    EventUpdate,
    HistoryEntry,
    Supplement,
    Update,
)
from unilab_sidecar.alerting.open_alerts import OpenAlerts
from unilab_sidecar.alerting.trouble_news import TroubleNews
from unilab_sidecar.events.milestones import Milestones
from unilab_sidecar.events.notes import Notes
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.groups import grouping
from unilab_sidecar.groups.grouped_readings import GroupedReadings
from unilab_sidecar.groups.metric_group import Readings
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.counting import Counting
from unilab_sidecar.progress.run_state import RunState
from unilab_sidecar.values.bus_courses import BusCourse
from unilab_sidecar.values.bus_figures import announced_node, bus_figures, journal
from unilab_sidecar.values.headline_figures import (
    all_dropped,
    highest,
    meant,
    pace_of,
    reference_of,
)
from unilab_sidecar.values.seen_values import SeenValues
from unilab_sidecar.values.steady_bottleneck import SteadyBottleneck
from unilab_sidecar.values.steady_rows import SteadyRows
from unilab_sidecar.values.window import Values


class Series:
    """What one viewer knows about a run. One owner, no locks; memory is bounded by the number of
    tags, four seconds of updates, 600 points of the reward's course, 64 of other courses and 100
    events."""

    def __init__(self, run_dir: str = "", target: str = "") -> None:
        """``run_dir``: where the viewer sees the run; else its aggregator's word counts.
        ``target``: what it was told to look at."""
        self._run_dir = run_dir
        self._target = target or run_dir
        self._host = "" if run_dir else host_of(target)
        self._values = SeenValues()
        self._notes = Notes()
        self._milestones = Milestones()
        self._alerts = OpenAlerts()
        self._bus = BusCourse()
        self._trouble_news = TroubleNews()
        self._collector_rows = SteadyRows()
        self._bottleneck = SteadyBottleneck()
        self._grouped = GroupedReadings()
        self._counting = Counting()
        self._state = RunState()
        self._last: Update | None = None
        self._newest_unix_ns: int | None = None
        self._seen: int = 0
        self._unseen_through: int = 0
        self._told_peak: float | None = None
        self._coming_peak: tuple[int, float] | None = None

    def add(self, batch: Batch) -> None:
        """Takes the next batch of the feed."""
        self._state.heed(batch)
        if batch.head is not None:
            self._values.name_reward(self._state.run.reward_tag)
            self._bus.heed(batch.head)
            self._trouble_news.heed(batch.head)
        if batch.snapshot is not None:
            self._values.snapshot(batch.snapshot)
        for record in batch.records:
            entry = record.entry
            if record.sequence != self._seen + 1:
                self._unseen_through = record.sequence - 1
            self._seen = record.sequence
            self._state.add(entry)
            self._milestones.heed(entry, self._last.iteration if self._last else None)
            if isinstance(entry, Update):
                self._add_update(record.sequence, entry, record.tags, record.values())
            elif isinstance(entry, Supplement):
                self._values.supplement(record.sequence, entry, record.tags, record.values())
            elif isinstance(entry, EventUpdate):
                self._notes.add(entry)
                self._alerts.add(record.sequence, entry)
                self._newest_unix_ns = entry.frame.unix_ns
            elif isinstance(entry, AttemptOpened):
                self._alerts.add(record.sequence, entry)
                self._values.window.clear()
                self._values.courses.begin_attempt()
                self._collector_rows.clear()
                self._bottleneck.clear()
                self._last = None
                self._values.name_reward(self._state.run.reward_tag)

        self._heed_peak(batch.head)

    def _heed_peak(self, head: Head | None) -> None:
        """What an announcement tells of the highest reward may be of entries that come after it."""
        if self._coming_peak is None and head is not None and head.best_mean_reward is not None:
            self._coming_peak = head.update, head.best_mean_reward
        if self._coming_peak is not None and (not self._seen or self._seen >= self._coming_peak[0]):
            self._told_peak, self._coming_peak = self._coming_peak[1], None

    def add_earlier(self, entries: Sequence[HistoryEntry]) -> None:
        """Takes events, and starts and ends of attempts, from before the first record."""
        self._notes.earlier(entries)
        self._milestones.earlier(entries)

    @property
    def untold_through(self) -> int:
        """Up to which update sequence neither entries nor an announcement have told the highest
        reward; 0 if it is that of the whole run."""
        head = self._state.head
        is_told = head is not None and head.best_mean_reward is not None
        return 0 if is_told else self._unseen_through

    @property
    def behind(self) -> bool:
        """Whether the history up to now is still being read."""
        return self._state.now.behind

    def with_courses_until(self, past: Picture) -> Picture:
        """A picture of the past with the courses up to then that this viewer has seen."""
        is_same = past.attempt == self._state.attempt
        return self._values.with_courses_until(past) if is_same else past

    def picture(self) -> Picture:
        """The run as of the newest batch; empty while the history up to now is being read."""
        last, state = self._last, self._state
        head, run, now = state.head, state.run, state.now
        if now.behind:
            return Picture("loading", run, attempt=state.attempt_read, target=self._target)
        if now.is_followed:
            # Nothing that the attempt before has left is of the one that comes.
            return Picture(
                "waiting",
                run,
                run_dir=self._run_dir or (head.run_dir if head else ""),
                target=self._target,
                host=self._host,
                connected=now.connected,
                silent_s=now.head_age_s if now.connected else math.inf,
            )
        summary = state.told()
        means = self._values.window.means()
        readings = self._readings(means)
        groups = self._grouped.metrics(readings, run)
        sources = state.sources()
        pace = pace_of(
            last, run, head, sources, self._counting, summary.training_s if summary else None
        )
        is_over = state.end_status() is not None
        rewards = self._values.rewards(is_whole=is_over and not self._unseen_through)
        reference, reference_unix_ns = reference_of(
            head, state.made_s(), state.ended, self._newest_unix_ns, is_over=is_over
        )
        return Picture(
            stage=state.stage(has_update=last is not None),
            run=run,
            run_dir=self._run_dir or (head.run_dir if head else ""),
            run_dir_there=head.run_dir if head else "",
            target=self._target,
            host=self._host,
            attempt=state.attempt,
            ended=state.end_status(),
            ended_text=self._milestones.why(state.ended),
            gone=state.gone(),
            refusal="" if is_over else now.refusal,
            outage=None if is_over else now.outage,
            connected=now.connected,
            silent_s=state.silent_s(has_update=last is not None),
            restarted_s=state.contact.restarted_s(),
            iteration=last.iteration if last else None,
            samples=len(self._values.window),
            lost_entries=now.lost_entries,
            passed_over=now.passed_over,
            passed_over_s=now.passed_over_s,
            unread=max(head.update - self._seen, 0) if head is not None and self._seen else 0,
            age_s=state.age_s(self._values.window.newest_mono_ns),
            late_s=now.late_s,
            elapsed_s=pace.elapsed_s,
            is_elapsed_of_rank_0=pace.is_of_rank_0,
            eta_s=pace.eta_s if state.gone() is None else None,
            laggard=pace.laggard,
            done_iterations=pace.done,
            env_steps=last.env_steps if last else None,
            ranks_reported=last.ranks_reported if last else 0,
            ranks_expected=last.ranks_expected if last else 0,
            missing_ranks=last.missing_ranks if last else (),
            steps_per_s=meant(readings, "steps_per_s"),
            rows_per_s=readings.get(grouping.ROWS_PER_S),
            episode_length=meant(readings, "episode_length"),
            losses=groups["losses"],
            policy=groups["policy"],
            diagnostics=groups["diagnostics"],
            ingress=groups["ingress"],
            others=groups["others"],
            rewards=replace(
                rewards,
                peak=highest(rewards.peak, self._told_peak),
                mean=meant(readings, "reward", run.reward_tag),
                tag=tag_of("reward", readings, run.reward_tag) or "",
                terms=groups["terms"],
            ),
            learner=self._values.happened.only(
                self._values.window.learner_timeline(run.algorithm, means)
            ),
            collector=self._collector_rows.timeline(
                means, run.algorithm, self._values.window.newest_mono_ns
            ),
            bottleneck=self._bottleneck.now(
                means, self._values.window.earlier_means, run.algorithm
            ),
            system=grouping.system(run.algorithm, readings),
            node=groups["node"],
            bus=bus_figures(head, readings, self._bus.all(), has_ended=is_over),
            sources=sources,
            backends=summary.backends if summary else head.backends if head else (),
            journal=journal(head, summary),
            dropped=all_dropped(summary, head),
            refused=self._notes.refused,
            refused_more=self._notes.refused_more,
            troubled=self._trouble_news.now(sources),
            notes=self._notes.all(reference_unix_ns),
            milestones=self._milestones.all(reference_unix_ns),
            own_alerts=self._alerts.now(head, state.summary if is_over else None),
            alert_webhook=head.alert_webhook if head else "",
            note_reference=reference,
            progress=self._notes.progress,
            readings=readings,
            courses=self._values.courses.all(),
            courses_from=self._values.courses.first,
        )

    def _add_update(
        self, sequence: int, update: Update, tags: tuple[str, ...], values: Values
    ) -> None:
        if update.attempt != (self._last.attempt if self._last else update.attempt):
            self._values.window.clear()
        self._last = update
        self._counting.heed(update)
        self._newest_unix_ns = update.unix_ns
        self._notes.started()
        self._values.update(sequence, update, tags, values)

    def _readings(self, means: dict[str, float]) -> Readings:
        others = self._values.older(means, self._state.age_s)
        if self._state.end_status() is None:
            others |= announced_node(self._state.head, self._state.made_s())
        return Readings(means, others)
