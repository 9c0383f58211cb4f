"""Everything the aggregator remembers of a run, as one struct that a snapshot encodes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unilab_metrics.aggregate.folding.alert_data import AlertData
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.window import Windows
from unilab_schema.frames import Scalar
from unilab_schema.identity import RunInfo
from unilab_schema.known_names import MEAN_REWARD
from unilab_schema.metrics import MetricSpec


class NonFinite(msgspec.Struct, frozen=True, array_like=True):
    """Where a tag first became NaN or infinite. ``rank`` is -1 if no supplier shows it."""

    iteration: int
    rank: int


MAX_HELPERS = 64
MAX_WARNINGS = 64
"""Distinct texts that the summary names."""


class HelperTroubles(msgspec.Struct, frozen=True, array_like=True):
    """How often a helper process has died, hung or could not be started, who looked after it,
    and what was wrong the last time."""

    count: int = 0
    by: str = ""
    reason: str = ""


_MAX_WARNING_CHARS = 1024


class RunData(msgspec.Struct, array_like=True):
    """The fold of every wal entry.

    ``next_update``: the update sequence of the next history entry. ``waived``: learner
    ranks that were expected and have not been waited for since a straggler's deadline.
    ``sealed_tags``: update layouts of recent iterations, to tell what a late value adds.
    ``warnings``: distinct texts of warning events and how many came.
    ``troubles``: of helper processes, by their names.
    ``update_layouts``: columns of those that are remembered, filled in for a snapshot.
    ``refused_tags``: names beyond the run's limit, as often as they were announced.
    ``absorbed_attempt``: the one in which the state was completed from the history, because the
    wal was damaged. ``told``: cursor and attempt of sources that are in the history and have not
    come back since; ``told_entries``: contents of events that are, behind the update
    ``told_since``; ``passed_stamps``: per rank the source and the stamp of the newest iteration
    that was sent again.
    ``first_iteration``: the lowest that was sealed, ``None`` if that is not known;
    ``attempt_iteration``: the first one of this attempt.
    ``latest_*``: newest value per column of ``columns`` and the update that carried it.
    """

    run: RunInfo = RunInfo()
    attempt: int = 1
    opened: bool = False
    opened_unix_ns: int = 0
    expected_learners: int = 1
    waived: int = 0
    sources: list[SourceState] = []
    windows: Windows = msgspec.field(default_factory=Windows)
    key_sets: dict[int, tuple[str, ...]] = {}
    definitions: list[MetricSpec] = []
    columns: list[str] = []
    update_layouts: dict[int, bytes] = {}
    sealed_tags: dict[int, list[int]] = {}
    next_update: int = 1
    iterations_sealed: int = 0
    last_iteration: int | None = None
    env_steps: int | None = None
    earlier_elapsed_s: float = 0.0
    elapsed_s: float = 0.0
    late_values: int = 0
    quarantined: int = 0
    gaps: int = 0
    first_nonfinite: dict[str, NonFinite] = {}
    summary: dict[str, Scalar] = {}
    warnings: dict[str, int] = {}
    best_mean_reward: float | None = None
    latest_values: bytes = b""
    latest_updates: bytes = b""
    ended: str | None = None
    ended_text: str = ""
    ended_unix_ns: int = 0
    troubles: dict[str, HelperTroubles] = {}
    bad_messages: int = 0
    commit_ms: float | None = None
    next_layout: int = 0
    refused_tags: int = 0
    redefinitions: int = 0
    told: dict[str, tuple[int, int]] = {}
    told_entries: dict[str, int] = {}
    passed_stamps: dict[int, tuple[int, int]] = {}
    absorbed_attempt: int = 0
    first_iteration: int | None = None
    told_since: int = 0
    alerts: AlertData = msgspec.field(default_factory=AlertData)
    best_reward_of: str = MEAN_REWARD
    attempt_iteration: int | None = None

    def count_sealed(self, iteration: int) -> None:
        """One more has its update."""
        if not self.iterations_sealed:
            self.first_iteration = iteration
        elif self.first_iteration is not None:
            self.first_iteration = min(self.first_iteration, iteration)
        if self.attempt_iteration is None:
            self.attempt_iteration = iteration
        self.iterations_sealed += 1

    def used_key_sets(self) -> set[int]:
        """Those that a layout, a report or an open iteration refers to."""
        used = {n for source in self.sources for n in source.layouts.values()}
        used |= {report.key_set for source in self.sources for report in source.reports.pending}
        for window in (*self.windows.open.values(), *self.windows.late.values()):
            for share in window.shares.values():
                used.update(frame.key_set for frame in share.frames)
        return used

    def count_warning(self, text: str, facts: Mapping[str, Scalar]) -> None:
        """Keep a warning for the summary; beyond the limit only those that are known."""
        text = text[:_MAX_WARNING_CHARS]
        helper = facts.get("helper")
        if helper is not None and (
            str(helper) in self.troubles or len(self.troubles) < MAX_HELPERS
        ):
            known = self.troubles.get(str(helper), HelperTroubles())
            by = str(facts.get("by", ""))[:_MAX_WARNING_CHARS]
            reason = str(facts.get("reason", text))[:_MAX_WARNING_CHARS]
            self.troubles[str(helper)] = HelperTroubles(known.count + 1, by, reason)
        if text in self.warnings or len(self.warnings) < MAX_WARNINGS:
            self.warnings[text] = self.warnings.get(text, 0) + 1
