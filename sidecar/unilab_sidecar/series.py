"""Batches in, a picture out: everything that the screen computes from updates. Pure.

No clock is read here: ages come from the aggregator's clock in the announcements plus the
feed's ``head_age_s``.
"""

from __future__ import annotations

import math

from unilab_schema.control import Head, SourceStatus
from unilab_schema.identity import RunInfo
from unilab_schema.updates import (
    AttemptOpened,
    EventUpdate,
    RunEnded,
    Supplement,
    Update,
)
from unilab_sidecar import grouping
from unilab_sidecar.batch import Batch
from unilab_sidecar.bus_figures import bus_figures, journal
from unilab_sidecar.contact import Contact
from unilab_sidecar.grouped_readings import GroupedReadings
from unilab_sidecar.happened import HappenedPhases
from unilab_sidecar.newest import NewestValues
from unilab_sidecar.notes import Notes
from unilab_sidecar.picture import (
    Picture,
    Reading,
    Reference,
    Rewards,
    Stage,
)
from unilab_sidecar.rewards import RewardCourse
from unilab_sidecar.standing import SILENT_AFTER_S
from unilab_sidecar.steady_bottleneck import SteadyBottleneck
from unilab_sidecar.steady_rows import SteadyRows
from unilab_sidecar.summary import Summary
from unilab_sidecar.trouble_news import TroubleNews
from unilab_sidecar.window import Values, Window


class Series:
    """What one viewer knows about a run. One owner, no locks; memory is bounded by the number
    of tags, four seconds of updates, 600 points of the reward's course and 100 events."""

    def __init__(self, run_dir: str = "") -> None:
        """``run_dir``: where the viewer sees the run; else its aggregator's word counts."""
        self._run_dir = run_dir
        self._window = Window()
        self._newest = NewestValues()
        self._rewards = RewardCourse()
        self._notes = Notes()
        self._contact = Contact()
        self._trouble_news = TroubleNews()
        self._collector_rows = SteadyRows()
        self._bottleneck = SteadyBottleneck()
        self._happened = HappenedPhases()
        self._grouped = GroupedReadings()
        self._last: Update | None = None
        self._head: Head | None = None
        self._connected = False
        self._head_age_s = 0.0
        self._run = RunInfo()
        self._attempt = 0
        self._ended: RunEnded | None = None
        self._newest_unix_ns: int | None = None
        self._behind = False
        self._summary: Summary | None = None
        self._gone: tuple[str, ...] | None = None
        self._refusal = ""
        self._seen = 0
        self._has_all = True

    def add(self, batch: Batch) -> None:
        """Takes the next batch of the feed."""
        if batch.head is not None:
            self._head = batch.head
            self._contact.heed(batch.head)
            self._trouble_news.heed(batch.head)
        self._behind = batch.behind
        if batch.summary is not None:
            self._summary = batch.summary
        self._connected = batch.connected
        self._head_age_s = batch.head_age_s
        if batch.snapshot is not None:
            self._newest.add_snapshot(batch.snapshot)
            newest = self._newest.all()
            self._happened.add_newest(newest, (one.value for one in newest.values()))
        for record in batch.records:
            entry = record.entry
            self._has_all = self._has_all and record.sequence == self._seen + 1
            self._seen = record.sequence
            # What follows the end takes it back.
            self._ended = entry if isinstance(entry, RunEnded) else None
            if isinstance(entry, Update):
                self._add_update(record.sequence, entry, record.tags, record.values())
            elif isinstance(entry, Supplement):
                values = record.values()
                self._window.supplement(entry.attempt, entry.iteration, record.tags, values)
                self._newest.add(record.sequence, entry.sealed_mono_ns, record.tags, values)
                self._happened.add(record.tags, values)
                self._add_reward(entry.iteration, record.tags, values)
            elif isinstance(entry, EventUpdate):
                self._notes.add(entry)
                self._newest_unix_ns = entry.frame.unix_ns
            elif isinstance(entry, AttemptOpened):
                self._window.clear()
                self._collector_rows.clear()
                self._bottleneck.clear()
                self._last, self._summary = None, None
                self._run, self._attempt = entry.run, entry.attempt
        # Of a run that has ended everybody is gone.
        self._gone = batch.gone if self._end_status() is None else None
        self._refusal = batch.refusal if self._end_status() is None else ""

    @property
    def behind(self) -> bool:
        """Whether the history up to now is still being read."""
        return self._behind

    def picture(self) -> Picture:
        """The run as of the newest batch; empty while the history up to now is being read."""
        last, head, run = self._last, self._head, self._current_run()
        if self._behind:
            return Picture("loading", run, attempt=self._attempt)
        summary = self._told()
        means = self._window.means()
        readings = self._readings(means)
        groups = self._grouped.metrics(readings)
        reference, reference_unix_ns = self._reference()
        is_whole = self._end_status() is not None and self._has_all
        course = self._rewards.whole() if is_whole else self._rewards.recent()
        return Picture(
            stage=self._stage(),
            run=run,
            run_dir=self._run_dir or (head.run_dir if head else ""),
            run_dir_there=head.run_dir if head else "",
            attempt=max(self._attempt, head.attempt if head else 0),
            ended=self._end_status(),
            ended_text=self._ended.text if self._ended is not None else "",
            gone=self._gone,
            refusal=self._refusal,
            connected=self._connected,
            silent_s=self._silent_s(),
            restarted_s=self._contact.restarted_s(),
            iteration=last.iteration if last else None,
            samples=len(self._window),
            age_s=self._age_s(self._window.newest_mono_ns),
            elapsed_s=last.elapsed_s if last else None,
            eta_s=_eta_s(last, run) if last and self._gone is None else None,
            env_steps=last.env_steps if last else None,
            ranks_reported=last.ranks_reported if last else 0,
            ranks_expected=last.ranks_expected if last else 0,
            missing_ranks=last.missing_ranks if last else (),
            steps_per_s=readings.get(grouping.STEPS_PER_S),
            rows_per_s=readings.get(grouping.ROWS_PER_S),
            episode_length=readings.get(grouping.EPISODE_LENGTH),
            losses=groups["losses"],
            policy=groups["policy"],
            diagnostics=groups["diagnostics"],
            ingress=groups["ingress"],
            others=groups["others"],
            rewards=Rewards(
                mean=readings.get(grouping.MEAN_REWARD),
                peak=self._rewards.peak,
                trend=self._rewards.trend(),
                history=course.values,
                span=course.span,
                whole_run=is_whole,
                terms=groups["terms"],
            ),
            learner=self._happened.only(self._window.learner_timeline(run.algorithm, means)),
            collector=self._collector_rows.timeline(
                means, run.algorithm, self._window.newest_mono_ns
            ),
            bottleneck=self._bottleneck.now(means, self._window.earlier_means, run.algorithm),
            system=grouping.system(run.algorithm, readings),
            bus=bus_figures(head, readings, has_ended=self._end_status() is not None),
            sources=(sources := self._sources()),
            backends=summary.backends if summary else head.backends if head else (),
            journal=journal(head, summary),
            dropped=self._all_dropped(),
            refused=self._notes.refused,
            refused_more=self._notes.refused_more,
            troubled=self._trouble_news.now(sources),
            notes=self._notes.all(reference_unix_ns),
            note_reference=reference,
            progress=self._notes.progress,
            readings=readings,
        )

    def _add_update(
        self, sequence: int, update: Update, tags: tuple[str, ...], values: Values
    ) -> None:
        if update.attempt != (self._last.attempt if self._last else update.attempt):
            self._window.clear()
        self._last = update
        self._newest_unix_ns = update.unix_ns
        self._notes.started()
        self._window.add(update.attempt, update.iteration, update.sealed_mono_ns, tags, values)
        self._newest.add(sequence, update.sealed_mono_ns, tags, values)
        self._happened.add(tags, values)
        self._add_reward(update.iteration, tags, values)

    def _add_reward(self, iteration: int, tags: tuple[str, ...], values: Values) -> None:
        if grouping.MEAN_REWARD in tags:
            self._rewards.add(float(values[tags.index(grouping.MEAN_REWARD)]), iteration)

    def _reference(self) -> tuple[Reference, int | None]:
        """What the ages of events are measured from: now, or where there is no now, the end."""
        head = self._head
        if self._end_status() is not None:
            if self._ended is not None:
                return "end", self._ended.unix_ns
            return "end", head.unix_ns if head else self._newest_unix_ns
        if head is not None:
            return "now", head.unix_ns + round(self._head_age_s * 1e9)
        return "last entry", self._newest_unix_ns

    def _silent_s(self) -> float:
        if self._head is not None:
            return self._head_age_s
        # What is known comes from files: nobody has spoken since this viewer looks.
        return math.inf if self._attempt or self._last is not None else 0.0

    def _told(self) -> Summary | None:
        """What the run says of itself, where it has ended without the aggregator's last word."""
        head = self._head
        is_told = head is not None and (
            head.ended is not None or self._head_age_s <= SILENT_AFTER_S
        )
        return None if is_told or self._ended is None else self._summary

    def _all_dropped(self) -> int | None:
        if (summary := self._told()) is not None:
            return summary.dropped
        if self._head is None or not self._head.sources:
            return None
        return sum(sum(s.drops.values()) + s.lost_frames for s in self._head.sources)

    def _sources(self) -> tuple[SourceStatus, ...]:
        """None where the run has ended without the aggregator that spoke of them, and says nothing
        of them itself."""
        if (summary := self._told()) is not None:
            return summary.sources
        head = self._head
        is_old = head is not None and head.ended is None and self._head_age_s > SILENT_AFTER_S
        if is_old and self._ended is not None:
            return ()
        return self._contact.sources(are_gone=self._gone is not None)

    def _current_run(self) -> RunInfo:
        if self._head is not None and self._head.attempt >= self._attempt:
            return self._head.run
        return self._run

    def _stage(self) -> Stage:
        if self._end_status() is not None:
            return "ended"
        if self._last is not None:
            return "training"
        return "waiting" if self._head is not None or self._attempt else "connecting"

    def _end_status(self) -> str | None:
        head = self._head
        if head is not None and head.ended is not None and head.attempt >= self._attempt:
            return head.ended
        return self._ended.status if self._ended is not None else None

    def _age_s(self, mono_ns: int | None) -> float | None:
        head = self._head
        if mono_ns is None or head is None or self._end_status() is not None:
            return None
        return max((head.mono_ns - mono_ns) / 1e9, 0.0) + self._head_age_s

    def _readings(self, means: dict[str, float]) -> dict[str, Reading]:
        readings = {tag: Reading(mean) for tag, mean in means.items()}
        for tag, newest in self._newest.all().items():
            if tag not in readings:
                age_s = self._age_s(newest.mono_ns)
                readings[tag] = Reading(newest.value, math.inf if age_s is None else age_s)
        return readings


def _eta_s(last: Update, run: RunInfo) -> float | None:
    if run.max_iterations is None:
        return None
    # On-policy runs count from 0, off-policy runs from 1.
    done = last.iteration + (1 if run.step_axis == "iteration" else 0)
    if done <= 0:
        return None
    return last.elapsed_s / done * max(run.max_iterations - done, 0)
