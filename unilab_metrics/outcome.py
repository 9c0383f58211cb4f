"""How an attempt of a run ended, in numbers: what ``run_summary.json`` is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unilab_schema.frames import Scalar
from unilab_schema.identity import RunInfo, SourceKey

COMPLETED = "completed"
FAILED = "failed"
COLLECTOR_DIED = "collector_died"
COLLECTION_COMPLETED = "collection_completed"
FAILURES = frozenset({FAILED, COLLECTOR_DIED})
"""Who closes with one of these has failed."""
STOPPED = "stopped"
"""Somebody ended it on purpose. Readers of ``run_summary.json`` do not know it, and are told
``failed``."""

STATUSES = (COMPLETED, FAILED, COLLECTOR_DIED, COLLECTION_COMPLETED)
"""The statuses that readers of ``run_summary.json`` know."""

TOLD_TO_END = frozenset({"SIGINT", "SIGTERM", "SIGHUP"})
"""Who has ended by one of these was asked to."""

MAX_OPEN_ALERTS = 16
"""Open alerts whose texts the summary repeats."""


@dataclass(frozen=True, kw_only=True)
class SourceOutcome:
    """One incarnation of a source: what it delivered and what it could not.

    ``frames``: records that were journaled. ``lost``: sequences that the source passed over
    or took with it. ``drops``: calls that it refused before they had a sequence, by reason;
    a lower bound if it was killed. ``troubles``: what it has met and lost nothing by, by name.
    ``state``: ``finished`` or ``lost``. ``ending``: of a lost one,
    a signal's name or ``exit code N``; empty if nobody was told. ``ended``: of a finished one, the
    status that it closed with. ``late_values``: of its values, those that are in no update.
    ``last_iteration``: of a learner, ``None`` before its first.
    """

    key: SourceKey
    pid: int
    host: str
    state: str
    frames: int
    lost: int
    drops: Mapping[str, int] = field(default_factory=dict[str, int])
    troubles: Mapping[str, int] = field(default_factory=dict[str, int])
    ending: str = ""
    ended: str = ""
    late_values: int = 0
    last_iteration: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What the aggregator knows when an attempt ends.

    ``status``: one of :data:`STATUSES`, or :data:`STOPPED`; ``text`` says why when it is not
    ``completed``. ``started_unix_ns`` and ``ended_unix_ns``: wall clock of the attempt.
    ``lasted_s``: how long it was, by clocks that nobody sets; ``None`` if only the wall clock
    tells. ``elapsed_s``: training time since warm-up until the last iteration of any rank, also a
    late one, earlier attempts included. ``updates``: last update sequence of the run.
    ``iterations``: last iteration, ``None`` before the first; ``first_iteration``: the lowest,
    ``None`` if that is not known; ``iterations_sealed``: how many. ``env_steps``: sum over ranks,
    late ones too, ``None`` while nobody counted. ``summary``: the fields of the run's
    ``set_summary`` calls, later ones win. ``backends``: last update sequence each one holds.
    ``first_nonfinite``: where a tag was first NaN or infinite, as (iteration, rank).
    ``unregistered_tags``: tags of open mode that the metric table does not know.
    ``warnings``: what sources warned of (a refused value, say), and how many said so.
    ``helper_troubles``: how often the aggregator or a writer died, hung or could not be
    started, who looked after it, and what was wrong the last time.
    ``alerts_raised``: in every attempt of the run; ``alerts_open``: what has not ended, at most
    :data:`MAX_OPEN_ALERTS` texts, the newest last, of ``alerts_open_count``.
    """

    run: RunInfo
    run_dir: Path
    attempt: int
    status: str
    started_unix_ns: int
    ended_unix_ns: int
    elapsed_s: float
    updates: int
    iterations: int | None
    iterations_sealed: int
    env_steps: int | None
    text: str = ""
    lasted_s: float | None = None
    first_iteration: int | None = None
    sources: Sequence[SourceOutcome] = ()
    late_values: int = 0
    quarantined: int = 0
    summary: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    backends: Mapping[str, int] = field(default_factory=dict[str, int])
    first_nonfinite: Mapping[str, tuple[int, int]] = field(
        default_factory=dict[str, tuple[int, int]]
    )
    unregistered_tags: Sequence[str] = ()
    warnings: Mapping[str, int] = field(default_factory=dict[str, int])
    helper_troubles: Mapping[str, tuple[int, str, str]] = field(
        default_factory=dict[str, tuple[int, str, str]]
    )
    alerts_raised: int = 0
    alerts_open: Sequence[str] = ()
    alerts_open_count: int = 0
