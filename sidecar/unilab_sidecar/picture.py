"""Everything that a screen shows at one moment, as plain data. Pure.

``series`` makes a picture, ``layout`` and ``plain`` turn it into text; neither side knows
the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import RunInfo
from unilab_schema.timing import CollectorTimeline, LearnerTimeline

Stage = Literal["connecting", "waiting", "training", "ended"]
"""``connecting``: nothing known yet; ``waiting``: a live run without an update (warm-up)."""
Trend = Literal["rising", "steady", "falling"]


class Reading(NamedTuple):
    """A tag's value: the mean over the window (``stale_s`` is ``None``), or the newest one of a
    tag that the window lacks, with its age in seconds (``inf`` if nobody knows it)."""

    value: float
    stale_s: float | None = None


class Metric(NamedTuple):
    """A labelled reading. ``unit``: as in the metric table, empty for what nobody declared."""

    label: str
    tag: str
    reading: Reading
    unit: str = ""


class Note(NamedTuple):
    """An event worth a line. ``age_s``: seconds since it happened, on the aggregator's clock."""

    kind: str
    text: str
    age_s: float | None
    iteration: int | None = None


class Progress(NamedTuple):
    """How far warm-up is, between 0 and 1, and what the training says about it."""

    fraction: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Rewards:
    """Mean episode return: over the window, its peak over what this viewer has seen, where it
    is going (``None`` with ten reports or fewer), and its last reports, oldest first."""

    mean: Reading | None = None
    peak: float | None = None
    trend: Trend | None = None
    history: tuple[float, ...] = ()
    terms: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class Journal:
    """The aggregator's books: last update, last one on the disk, and what went wrong."""

    update: int = 0
    durable: int = 0
    late_values: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment of a run. ``samples``: updates in the two-second window (``n`` on screen).
    ``age_s``: since the newest of them was sealed. ``silent_s``: since the last announcement."""

    stage: Stage = "connecting"
    run: RunInfo = field(default_factory=RunInfo)
    run_dir: str = ""
    attempt: int = 0
    ended: str | None = None
    connected: bool = False
    silent_s: float = 0.0

    iteration: int | None = None
    samples: int = 0
    age_s: float | None = None
    elapsed_s: float | None = None
    eta_s: float | None = None
    env_steps: int | None = None
    ranks_reported: int = 0
    ranks_expected: int = 0
    missing_ranks: tuple[int, ...] = ()

    steps_per_s: Reading | None = None
    rows_per_s: Reading | None = None
    episode_length: Reading | None = None

    losses: tuple[Metric, ...] = ()
    diagnostics: tuple[Metric, ...] = ()
    ingress: tuple[Metric, ...] = ()
    others: tuple[Metric, ...] = ()
    rewards: Rewards = Rewards()
    learner: LearnerTimeline | None = None
    collector: CollectorTimeline | None = None
    system: tuple[Metric, ...] = ()

    sources: tuple[SourceStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()
    journal: Journal = Journal()
    notes: tuple[Note, ...] = ()
    progress: Progress | None = None
