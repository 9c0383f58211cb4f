"""Which phases an algorithm's learner and collector have, and what each one's tag is.

A publisher turns measured nanoseconds into tags with this table; a viewer lays the same
tags out as timelines (``unilab_schema.timing``). Phases of another algorithm appear
nowhere: not as a row, not as a zero in a backend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from unilab_schema.identity import COLLECTOR, LEARNER, Role

TimeUnit = Literal["ms", "s"]
OverIteration = Literal["sum", "last", "mean"]
Family = Literal["off_policy", "appo", "on_policy", "unknown"]

ITERATION_WALL = "Perf/iteration_time"

_NS_PER_UNIT: dict[TimeUnit, float] = {"ms": 1e6, "s": 1e9}
_FAMILIES: dict[str, Family] = {
    "sac": "off_policy",
    "fastsac": "off_policy",
    "flashsac": "off_policy",
    "appo": "appo",
    "ppo": "on_policy",
    "rslrlppo": "on_policy",
}


class PhaseSpec(NamedTuple):
    """A stretch of a learner's or collector's time.

    ``exclusive``: a slice of its timeline, so nested exclusive phases pause the outer one;
    the others are details inside or beside a slice and are never added up. ``over_iteration``:
    how several spans between two reports become one value: a learner's exclusive phases are
    summed over the iteration, a collector's are the mean per tick.
    """

    name: str
    tag: str
    unit: TimeUnit
    exclusive: bool
    over_iteration: OverIteration
    label: str
    short_label: str

    @property
    def scale(self) -> float:
        """Factor from nanoseconds to the tag's unit."""
        return 1.0 / _NS_PER_UNIT[self.unit]

    def from_ns(self, duration_ns: float) -> float:
        """A duration in the tag's unit."""
        return duration_ns / _NS_PER_UNIT[self.unit]

    def to_ms(self, value: float) -> float:
        """A value of the tag in milliseconds, the unit of every terminal row."""
        return value if self.unit == "ms" else value * 1e3


def _slice(name: str, label: str, short_label: str) -> PhaseSpec:
    return PhaseSpec(name, f"Perf/learner_{name}_ms", "ms", True, "sum", label, short_label)


def _inference_detail(name: str, label: str) -> PhaseSpec:
    tag = f"Perf/learner_inference_{name}_ms"
    return PhaseSpec(f"inference_{name}", tag, "ms", False, "sum", f"Inference {label}", label)


def _tick(name: str, label: str, short_label: str, *, exclusive: bool = True) -> PhaseSpec:
    tag = f"Perf/collector_{name}_ms"
    return PhaseSpec(name, tag, "ms", exclusive, "mean", label, short_label)


_COLLECTOR_WAIT = _slice("collector_wait", "Collector Wait", "Coll Wait")
_INFERENCE = _slice("inference", "Inference", "Inference")
_COLLECTOR_RELEASE = _slice("collector_release", "Collector Release", "Release")
_REPLAY_BATCH_WAIT = _slice("replay_batch_wait", "Replay Batch Wait", "Batch Wait")
_REPLAY_STAGE = _slice("replay_stage", "Replay Stage", "Stage")
_REPLAY_SAMPLE = _slice("replay_sample", "Replay Sample", "Sample")
_WEIGHT_PUBLISH = _slice("weight_publish", "Weight Publish", "Publish")
_LEARNING = PhaseSpec("learning", "Perf/learning_time", "s", True, "sum", "Learning", "Learning")
_COLLECTION = PhaseSpec(
    "collection", "Perf/collection_time", "s", True, "sum", "Collection", "Collect"
)
_H2D_SUBMIT = PhaseSpec(
    "replay_ingress_h2d_submit",
    "Perf/replay_ingress_h2d_submit_ms",
    "ms",
    False,
    "last",
    "Replay H2D Submit",
    "H2D Submit",
)

_LEARNER_PHASES: dict[Family, tuple[PhaseSpec, ...]] = {
    "off_policy": (
        _COLLECTOR_WAIT,
        _INFERENCE,
        _COLLECTOR_RELEASE,
        _REPLAY_BATCH_WAIT,
        _REPLAY_SAMPLE,
        _LEARNING,
        _inference_detail("h2d", "H2D"),
        _inference_detail("forward", "Forward"),
        _inference_detail("d2h", "D2H"),
        _H2D_SUBMIT,
    ),
    "appo": (_COLLECTOR_WAIT, _REPLAY_STAGE, _REPLAY_SAMPLE, _LEARNING, _WEIGHT_PUBLISH),
    "on_policy": (_COLLECTION, _LEARNING),
    "unknown": (),
}

_OWN_START, _OWN_END = "Perf/learner_", "_ms"
_OWN_COLLECTOR_START = "Perf/collector_"
MAX_OWN = 32
"""Phases of a user's own that are rows."""

_ENV_STEP = _tick("env_step", "Env Step", "Env Step")
_COLLECTOR_PHASES: dict[Family, tuple[PhaseSpec, ...]] = {
    "off_policy": (
        _tick("inference_request", "Inference Request", "Request"),
        _tick("learner_action_wait", "Learner Action Wait", "Action Wait"),
        _ENV_STEP,
        _tick("env_step_action_validate", "Action Validate", "Validate", exclusive=False),
        _tick("env_step_apply_action", "Apply Action", "Apply", exclusive=False),
        _tick("env_step_action_backend", "Action+Backend", "Act+Backend", exclusive=False),
        _tick("env_step_backend", "Backend Step", "Backend", exclusive=False),
        _tick("env_step_update_state", "Update State", "Update", exclusive=False),
        _tick("env_step_reset_done", "Reset Done", "Reset", exclusive=False),
        _tick("transition_extract", "Transition Extract", "Extract"),
        _tick("replay_write", "Replay Write", "Write"),
        _tick("metrics_publish", "Metrics Publish", "Metrics"),
    ),
    "appo": (
        _tick("mlp_infer", "MLP Infer", "MLP Infer"),
        _ENV_STEP,
        # The rollout contains the steps above, so it must not pause for them.
        PhaseSpec("rollout", "Perf/collection_time", "s", False, "last", "Rollout Wall", "Rollout"),
    ),
    "on_policy": (),
    "unknown": (),
}

_KNOWN_TAGS = frozenset(
    phase.tag
    for table in (_LEARNER_PHASES, _COLLECTOR_PHASES)
    for phases in table.values()
    for phase in phases
)
_OF_OLD_RUNS = frozenset({
    "Perf/learner_other_ms", "Perf/learner_pipeline_ms", "Perf/collector_cycle_ms",
    "Perf/collector_rollout_ms", "Perf/collector_inference_wait_ms",
})  # fmt: skip
"""Sums, and what has another name now."""
_EARLIER_TAGS = {"Perf/collection_time": "Perf/collection time"}
"""In seconds too: the names of rsl_rl up to 3.1."""


def family_of(algorithm: str) -> Family:
    """The timing profile of an algorithm's or log directory's name, ``unknown`` for others."""
    key = algorithm.strip().lower().replace("_", "").replace("-", "")
    return _FAMILIES.get(key, "unknown")


def learner_phases(algorithm: str) -> tuple[PhaseSpec, ...]:
    """A learner's phases: the exclusive ones in display order, then the details.

    A learner that measures its iteration reports every exclusive one of them, as 0 if it did
    not happen. Empty for an algorithm that the schema does not know.
    """
    return _LEARNER_PHASES[family_of(algorithm)]


def collector_phases(algorithm: str) -> tuple[PhaseSpec, ...]:
    """A collector's phases in display order, details after the phase that contains them."""
    return _COLLECTOR_PHASES[family_of(algorithm)]


def find_phase(role: Role, name: str, algorithm: str) -> PhaseSpec | None:
    """The phase that ``name`` means for this role and algorithm.

    An algorithm without a profile of its own may use every known phase; one with a profile
    never gets another's (``None``). Roles other than learner and collector have no phases.
    """
    table = {LEARNER: _LEARNER_PHASES, COLLECTOR: _COLLECTOR_PHASES}.get(role)
    if table is None:
        return None
    family = family_of(algorithm)
    profiles = tuple(table.values()) if family == "unknown" else (table[family],)
    for profile in profiles:
        for phase in profile:
            if phase.name == name:
                return phase
    return None


def phase_names(role: Role, algorithm: str) -> tuple[str, ...]:
    """The names for which :func:`find_phase` finds something, in display order."""
    table = {LEARNER: _LEARNER_PHASES, COLLECTOR: _COLLECTOR_PHASES}.get(role, {})
    family = family_of(algorithm)
    profiles = table.values() if family == "unknown" else (table.get(family, ()),)
    return tuple(dict.fromkeys(phase.name for profile in profiles for phase in profile))


def learner_slices(algorithm: str, there: Collection[str]) -> tuple[PhaseSpec, ...]:
    """A learner's exclusive phases in display order: its profile's or, without one, every known one;
    then those of its user among the tags that are ``there``, in their order, which in an update is the
    one in which the run has met them first; those of a set, which has none, by name.

    What ``phase("rollout")`` measures has the tag ``Perf/learner_rollout_ms`` and is exclusive, as is
    everything that is named so and is nothing known: no phase of any algorithm and none of its
    details, and neither of the sums that old runs have. With a profile that measures parts of its
    phases, which an off-policy algorithm and APPO have, a name that begins with one of these is a
    part of it, too. What rsl_rl named otherwise before 3.2 has that tag where it is the one that is
    there.
    """
    profile = learner_phases(algorithm) or all_learner_slices()
    slices = tuple(_as_named(phase, there) for phase in profile if phase.exclusive)
    own = [tag for tag in there if tag.startswith(_OWN_START) and _is_own(tag, _OWN_START)]
    if own and family_of(algorithm) in ("off_policy", "appo"):
        starts = tuple(f"{_OWN_START}{phase.name}_" for phase in slices)
        own = [tag for tag in own if not tag.startswith(starts)]
    if isinstance(there, set | frozenset):
        own.sort()
    names = (tag[len(_OWN_START) : -len(_OWN_END)] for tag in own[:MAX_OWN])
    return (*slices, *(unlisted_phase(LEARNER, name) for name in names))


def collector_rows(algorithm: str, there: Iterable[str]) -> tuple[PhaseSpec, ...]:
    """A collector's phases as rows: its profile's, then those of its user among the tags that are
    ``there``, in the order that :func:`learner_slices` gives a learner's. A part of a phase, by its
    name, comes after that one's details. Without a profile, those that are known among the tags.

    What ``phase("inference")`` measures has the tag ``Perf/collector_inference_ms``. The cycle is
    the profile's own sum, so a user's phase is a detail: beside it or inside one of its parts.
    """
    start = _OWN_COLLECTOR_START
    own = [tag for tag in there if tag.startswith(start) and _is_own(tag, start)]
    if isinstance(there, set | frozenset):
        own.sort()
    rows = list(collector_phases(algorithm))
    if family_of(algorithm) == "unknown":
        known = dict.fromkeys(p for some in _COLLECTOR_PHASES.values() for p in some)
        tags = frozenset(there)
        rows = [p for p in known if p.tag in tags and p.tag.startswith(_OWN_COLLECTOR_START)]
    for tag in own[:MAX_OWN]:
        phase = unlisted_phase(COLLECTOR, tag[len(start) : -len(_OWN_END)])
        rows.insert(_place(phase, rows), phase._replace(exclusive=False))
    return tuple(rows)


def _as_named(phase: PhaseSpec, there: Collection[str]) -> PhaseSpec:
    earlier = _EARLIER_TAGS.get(phase.tag)
    is_earlier = earlier is not None and earlier in there and phase.tag not in there
    return phase._replace(tag=earlier) if earlier is not None and is_earlier else phase


def is_of_its_own(phase: PhaseSpec, rows: Iterable[PhaseSpec]) -> bool:
    """Whether one of these :func:`collector_rows` is a user's, and by its name no part of another."""
    return phase.tag not in _KNOWN_TAGS and _whole_of(phase, rows) is None


def _whole_of(phase: PhaseSpec, rows: Iterable[PhaseSpec]) -> PhaseSpec | None:
    """What it is a part of, by its name."""
    wholes = (one for one in rows if one.exclusive)
    return next((one for one in wholes if phase.name.startswith(f"{one.name}_")), None)


def _place(phase: PhaseSpec, rows: Sequence[PhaseSpec]) -> int:
    """Behind what it is a part of and that one's other parts, or at the end."""
    whole = _whole_of(phase, rows)
    if whole is None:
        return len(rows)
    parts = [one == whole or one.name.startswith(f"{whole.name}_") for one in rows]
    return len(rows) - parts[::-1].index(True)


def unlisted_phase(role: Role, name: str) -> PhaseSpec:
    """The phase of a name that no profile has, of a user's own."""
    how = "sum" if role == LEARNER else "mean"
    label = name.replace("_", " ").title()
    return PhaseSpec(name, f"Perf/{role}_{name}_ms", "ms", True, how, label, label)


def _is_own(tag: str, start: str) -> bool:
    is_named = tag.endswith(_OWN_END) and len(tag) > len(start + _OWN_END)
    return is_named and tag not in _KNOWN_TAGS and tag not in _OF_OLD_RUNS


def all_learner_slices() -> tuple[PhaseSpec, ...]:
    """Every exclusive learner phase once, for runs whose algorithm has no profile."""
    seen: dict[str, PhaseSpec] = {}
    for profile in _LEARNER_PHASES.values():
        for phase in profile:
            if phase.exclusive:
                seen.setdefault(phase.name, phase)
    return tuple(seen.values())
