"""Everything that a screen shows at one moment, as plain data. Pure.

``series`` makes a picture, ``views`` and ``plain`` turn it into text; neither side knows
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from unilab_schema.alerts import AlertStatus
from unilab_schema.bottleneck import Bottleneck
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import RunInfo
from unilab_schema.timing import CollectorTimeline, LearnerTimeline
from unilab_sidecar.values.bus_courses import BusCourses

if TYPE_CHECKING:
    from unilab_metrics.subscribe.ssh.outage import Outage

Stage = Literal["connecting", "loading", "waiting", "training", "ended"]
"""``connecting``: nothing known yet; ``loading``: the history so far is being read, and nothing
of it is shown; ``waiting``: a live run without an update (warm-up)."""
Reference = Literal["now", "end", "last entry"]
Trend = Literal["rising", "steady", "falling"]


class Reading(NamedTuple):
    """A tag's value: the mean over the window (``stale_s`` is ``None``), or the newest one of a
    tag that the window lacks, with its age in seconds (``inf`` if nobody knows it). ``is_rare``: the
    window has lacked it before."""

    value: float
    stale_s: float | None = None
    is_rare: bool = False


class Metric(NamedTuple):
    """A labelled reading. ``unit``: as in the metric table, empty for what nobody declared."""

    label: str
    tag: str
    reading: Reading
    unit: str = ""


class Note(NamedTuple):
    """An event worth a line, once for all sources that reported it. ``age_s``: seconds from it
    to the picture's ``note_reference``. ``refused``: something that could not be logged.
    ``attempt``: 0 if nobody knows. ``severity``: of an alert, ``warn`` or ``bad``."""

    kind: str
    text: str
    age_s: float | None
    iteration: int | None = None
    ranks: tuple[int, ...] = ()
    refused: bool = False
    attempt: int = 0
    severity: str = ""


class Trouble(NamedTuple):
    """Something that a source has met a number of ``times``, and lost no frame by."""

    place: str
    name: str
    times: int


class Laggard(NamedTuple):
    """The learner at work that is furthest behind the newest iteration of any."""

    rank: int
    iteration: int
    behind: int


class Progress(NamedTuple):
    """How far warm-up is, between 0 and 1, and what the training says about it."""

    fraction: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class BusFigures:
    """What the bus says of itself: frames that wait, milliseconds until one is journaled,
    microseconds inside ``log()``, messages that were none, and where all that has gone."""

    backlog: Reading | None = None
    ack_latency_ms: Reading | None = None
    publish_us: Reading | None = None
    bad_messages: int = 0
    courses: BusCourses = field(default_factory=BusCourses)


@dataclass(frozen=True, slots=True)
class Rewards:
    """Mean episode return: over the window, its peak over the run as far as somebody knows it, its
    last report (``None`` for one that this viewer has not read), where it is going (``None`` with
    fewer than twenty reports, and while the last one is no finite number) by its ``trend_reports``
    last ones, and its course, oldest first: means over equal stretches of all reports that were seen,
    of the ``whole_run`` if that is known to be over. ``span``: first and last iteration of the
    course. ``tag``: whose values these are, empty if nobody knows. ``is_peak_awaited``: it is being
    read."""

    mean: Reading | None = None
    peak: float | None = None
    last: float | None = None
    trend: Trend | None = None
    trend_reports: int = 0
    history: tuple[float, ...] = ()
    span: tuple[int, int] | None = None
    whole_run: bool = False
    terms: Sequence[Metric] = ()
    tag: str = ""
    is_peak_awaited: bool = False


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
    ``age_s``: since the newest of them was sealed. ``silent_s``: since the last announcement,
    ``late_s``: how long that was on its way, at least.
    ``unread``: entries of the history that were announced and not read yet; ``lost_entries``:
    those that nobody can read. ``passed_over``, ``passed_over_s``: as in ``Batch``.
    ``restarted_s``: since a successor of the aggregator spoke first, while that is news.
    ``run_dir``: as this viewer sees it, ``run_dir_there``: as the aggregator does, ``target``: what
    this viewer was told to look at, ``host``: where the run is, empty for this machine and where
    nobody knows.
    ``ended_text``: why the run ended as it did, if somebody said it. ``gone``: nobody is at work
    on a run that has not ended; who is gone, by name. ``refusal``: why the aggregator does not
    let us in any more, empty while it does. ``outage``: what keeps from hearing its machine.
    ``is_past``: a moment that somebody went back to, of which nobody knows who was at work.
    ``is_played``: of a run that is played again from its files, where nobody speaks for the bus.
    ``is_elapsed_of_rank_0``: nobody knows how long the slowest of several ranks has trained.
    ``dropped``: values and frames that are missing, ``None`` if nobody says. ``refused``:
    names of what could not be logged, ``refused_more``: how many further names there are.
    ``laggard``: only one that is far behind. ``done_iterations``: those that every rank has
    completed, wherever they count from. ``node``: what rank 0's node says of itself, under its
    tags. ``troubled``: who is meeting what just now that costs no frame. ``own_alerts``: the newest
    of the run's own that are open, oldest first, and how many are; ``alert_webhook``: what it could
    not deliver. ``readings``: of every tag. ``courses``: where losses, policy and diagnostics have
    gone, oldest first, from the iteration ``courses_from`` on."""

    stage: Stage = "connecting"
    run: RunInfo = field(default_factory=RunInfo)
    run_dir: str = ""
    run_dir_there: str = ""
    target: str = ""
    host: str = ""
    attempt: int = 0
    ended: str | None = None
    ended_text: str = ""
    gone: tuple[str, ...] | None = None
    refusal: str = ""
    outage: Outage | None = None
    connected: bool = False
    silent_s: float = 0.0
    restarted_s: float | None = None
    is_past: bool = False
    is_played: bool = False

    iteration: int | None = None
    samples: int = 0
    unread: int = 0
    lost_entries: int = 0
    passed_over: int = 0
    passed_over_s: float | None = None
    age_s: float | None = None
    late_s: float = 0.0
    elapsed_s: float | None = None
    is_elapsed_of_rank_0: bool = False
    eta_s: float | None = None
    env_steps: int | None = None
    ranks_reported: int = 0
    ranks_expected: int = 0
    missing_ranks: tuple[int, ...] = ()
    laggard: Laggard | None = None
    done_iterations: int | None = None

    steps_per_s: Reading | None = None
    rows_per_s: Reading | None = None
    episode_length: Reading | None = None

    losses: Sequence[Metric] = ()
    policy: Sequence[Metric] = ()
    diagnostics: Sequence[Metric] = ()
    ingress: Sequence[Metric] = ()
    others: Sequence[Metric] = ()
    rewards: Rewards = Rewards()
    learner: LearnerTimeline | None = None
    collector: CollectorTimeline | None = None
    bottleneck: Bottleneck | None = None
    system: tuple[Metric, ...] = ()
    node: Sequence[Metric] = ()
    bus: BusFigures = BusFigures()

    sources: tuple[SourceStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()
    journal: Journal = Journal()
    dropped: int | None = None
    refused: tuple[str, ...] = ()
    refused_more: int = 0
    troubled: tuple[Trouble, ...] = ()
    notes: tuple[Note, ...] = ()
    milestones: tuple[Note, ...] = ()
    own_alerts: tuple[tuple[AlertStatus, ...], int] = ((), 0)
    alert_webhook: str = ""
    note_reference: Reference = "now"
    progress: Progress | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict[str, Reading])
    courses: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    courses_from: int | None = None
