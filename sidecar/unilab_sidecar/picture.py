"""Everything that a screen shows at one moment, as plain data. Pure.

``series`` makes a picture, ``views`` and ``plain`` turn it into text; neither side knows
the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from unilab_schema.bottleneck import Bottleneck
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import RunInfo
from unilab_schema.timing import CollectorTimeline, LearnerTimeline

Stage = Literal["connecting", "loading", "waiting", "training", "ended"]
"""``connecting``: nothing known yet; ``loading``: the history so far is being read, and nothing
of it is shown; ``waiting``: a live run without an update (warm-up)."""
Reference = Literal["now", "end", "last entry"]
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
    """An event worth a line, once for all sources that reported it. ``age_s``: seconds from it
    to the picture's ``note_reference``. ``refused``: something that could not be logged.
    ``attempt``: 0 if nobody knows."""

    kind: str
    text: str
    age_s: float | None
    iteration: int | None = None
    ranks: tuple[int, ...] = ()
    refused: bool = False
    attempt: int = 0


class Trouble(NamedTuple):
    """Something that a source has met a number of ``times``, and lost no frame by."""

    place: str
    name: str
    times: int


class Progress(NamedTuple):
    """How far warm-up is, between 0 and 1, and what the training says about it."""

    fraction: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class BusFigures:
    """What the bus says of itself: frames that wait, milliseconds until one is journaled,
    microseconds inside ``log()``, messages that were none."""

    backlog: Reading | None = None
    ack_latency_ms: Reading | None = None
    publish_us: Reading | None = None
    bad_messages: int = 0


@dataclass(frozen=True, slots=True)
class Rewards:
    """Mean episode return: over the window, its peak over what this viewer has seen, where it
    is going (``None`` with ten reports or fewer), and its course, oldest first: the last
    reports, or with ``whole_run`` means over equal stretches of all of them. ``span``: first
    and last iteration of the course."""

    mean: Reading | None = None
    peak: float | None = None
    trend: Trend | None = None
    history: tuple[float, ...] = ()
    span: tuple[int, int] | None = None
    whole_run: bool = False
    terms: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class Journal:
    """The aggregator's books: last update, last one on the disk, and what went wrong.
    ``problem``: why nothing can be written now, empty while it can."""

    update: int = 0
    durable: int = 0
    late_values: int = 0
    quarantined: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment of a run. ``samples``: updates in the two-second window (``n`` on screen).
    ``age_s``: since the newest of them was sealed. ``silent_s``: since the last announcement.
    ``restarted_s``: since a successor of the aggregator spoke first, while that is news.
    ``run_dir``: as this viewer sees it, ``run_dir_there``: as the aggregator does.
    ``ended_text``: why the run ended as it did, if somebody said it. ``gone``: nobody is at work
    on a run that has not ended; who is gone, by name. ``refusal``: why the aggregator does not
    let us in any more, empty while it does.
    ``dropped``: values and frames that are missing, ``None`` if nobody says. ``refused``:
    names of what could not be logged, ``refused_more``: how many further names there are.
    ``troubled``: who is meeting what just now that costs no frame. ``readings``: of every tag."""

    stage: Stage = "connecting"
    run: RunInfo = field(default_factory=RunInfo)
    run_dir: str = ""
    run_dir_there: str = ""
    attempt: int = 0
    ended: str | None = None
    ended_text: str = ""
    gone: tuple[str, ...] | None = None
    refusal: str = ""
    connected: bool = False
    silent_s: float = 0.0
    restarted_s: float | None = None

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
    policy: tuple[Metric, ...] = ()
    diagnostics: tuple[Metric, ...] = ()
    ingress: tuple[Metric, ...] = ()
    others: tuple[Metric, ...] = ()
    rewards: Rewards = Rewards()
    learner: LearnerTimeline | None = None
    collector: CollectorTimeline | None = None
    bottleneck: Bottleneck | None = None
    system: tuple[Metric, ...] = ()
    bus: BusFigures = BusFigures()

    sources: tuple[SourceStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()
    journal: Journal = Journal()
    dropped: int | None = None
    refused: tuple[str, ...] = ()
    refused_more: int = 0
    troubled: tuple[Trouble, ...] = ()
    notes: tuple[Note, ...] = ()
    note_reference: Reference = "now"
    progress: Progress | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict[str, Reading])
