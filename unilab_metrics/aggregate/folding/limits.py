"""What a source may say: numbers that fit everywhere they go, and an identity that is sane. Pure.

A value beyond these limits would fail later, when an update is encoded or a backend writes
it, and then again after every restart. So it is refused where it comes in.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_schema.codec import MAX_STEP, MAX_TAG_BYTES, FrameDecodeError
from unilab_schema.control import Hello, SourceFigures
from unilab_schema.frames import (
    BlobFrame,
    EventFrame,
    IterationFrame,
    PointsFrame,
    ReportFrame,
    SparseFrame,
)
from unilab_schema.identity import (
    MAX_INSTANCES,
    MAX_NAME_CHARS,
    MAX_RANKS,
    MAX_RUN_CHARS,
    Identity,
    RunInfo,
)

MAX_SEQUENCE = 2**62
MAX_GAP_FRAMES = 2**40
"""More frames than any source can have logged at once: a greater gap is an invention."""
MAX_REASONS = 32
"""Reasons of drops that one source may name; the rest is one more."""
TOO_MANY_RUN_TAGS = "too_many_run_tags"
"""Values of tags beyond the number, or the length, of the names that a run may have."""
SPOOL_UNAVAILABLE = "spool_unavailable"
"""As sources call it: their calls while they have no spool, of which nothing reaches us."""
TOO_MANY_REPORTS = "too_many_reports"
"""Values of reports that have waited for an iteration while too many others came."""
MAX_NS = 2**62
_MAX_REASON_CHARS = 64
_MAX_COUNT = 2**53
_MAX_PATH_CHARS = 4096
_INCARNATION_BYTES = 16


def hello_fault(hello: Hello) -> str:
    """Why a Hello is refused for good; empty if it is sane."""
    if not 1 <= hello.first <= MAX_SEQUENCE or not 0 <= hello.last <= MAX_SEQUENCE:
        return f"sequences {hello.first} to {hello.last} are not possible"
    return identity_fault(hello.identity)


def identity_fault(identity: Identity) -> str:
    """Why an identity is refused; empty if it is sane."""
    key = identity.key
    checks = (
        (0 <= key.rank < MAX_RANKS, f"rank {key.rank}"),
        (0 <= key.instance < MAX_INSTANCES, f"instance {key.instance}"),
        (0 < len(key.role) <= MAX_NAME_CHARS, "role"),
        (len(identity.incarnation) == _INCARNATION_BYTES, "incarnation"),
        (1 <= identity.expected_learners <= MAX_RANKS, "expected_learners"),
        (1 <= identity.run.world_size <= MAX_RANKS, "world_size"),
        (0 <= identity.pid < 2**31, "pid"),
        (0 <= identity.pid_space < 2**64, "pid_space"),
        (max(len(identity.host), len(identity.boot_id)) <= MAX_NAME_CHARS, "host"),
        (len(identity.version) <= MAX_NAME_CHARS, "version"),
        (_is_run(identity.run), "run"),
        (0 <= identity.started_mono_ns <= MAX_NS, "started_mono_ns"),
        (0 <= identity.started_unix_ns <= MAX_NS, "started_unix_ns"),
        (_is_spool(identity.spool_path), "spool_path"),
        (_is_lease(identity), "lease_path"),
    )
    faults = [name for is_fine, name in checks if not is_fine]
    return f"identity refused: {', '.join(faults)}" if faults else ""


def bounded_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason as they can be kept, shown and become tags: few, short, not negative."""
    if not counts:
        return {}
    kept: dict[str, int] = {}
    for reason, count in counts.items():
        is_usable = 0 < len(reason) <= _MAX_REASON_CHARS and reason.isprintable()
        name = reason if is_usable and len(kept) < MAX_REASONS else "other"
        kept[name] = min(kept.get(name, 0) + max(count, 0), _MAX_COUNT)
    return kept


def figures_within(figures: SourceFigures | None) -> SourceFigures | None:
    """A source's figures if they are possible."""
    if figures is None:
        return None
    counts = (figures.backlog, figures.log_calls, figures.log_ns)
    latency_ms = figures.ack_latency_ms
    is_possible = all(0 <= count <= MAX_NS for count in counts) and (
        latency_ms is None or 0.0 <= latency_ms < MAX_NS
    )
    return figures if is_possible else None


def check_numbers(frame: object) -> None:
    """Raises ``FrameDecodeError`` for numbers that fit no update or no backend."""
    match frame:
        case IterationFrame() | ReportFrame() | SparseFrame():
            iteration = None if isinstance(frame, ReportFrame) else frame.iteration
            # In one expression: this is done for every frame of the run.
            if not (
                0 <= frame.mono_ns <= MAX_NS
                and -MAX_NS <= frame.unix_ns <= MAX_NS
                and 0 <= (frame.env_steps or 0) <= MAX_STEP
                and -MAX_STEP <= (iteration or 0) <= MAX_STEP
            ):
                raise FrameDecodeError(
                    "frame",
                    f"stamp {frame.mono_ns}, wall clock {frame.unix_ns}, env_steps "
                    f"{frame.env_steps} or iteration {iteration} is out of range",
                )
        case PointsFrame():
            for point in frame.points:
                _check("step", point.step, -MAX_STEP, MAX_STEP)
                _check("wall clock", point.unix_ns, -MAX_NS, MAX_NS)
        case BlobFrame():
            _check("step", frame.step, -MAX_STEP, MAX_STEP)
            _check("wall clock", frame.unix_ns, -MAX_NS, MAX_NS)
        case EventFrame():
            _check("stamp", frame.mono_ns, 0, MAX_NS)
            _check("wall clock", frame.unix_ns, -MAX_NS, MAX_NS)
        case _:
            pass


def _check(what: str, number: int, low: int, high: int) -> None:
    if not low <= number <= high:
        raise FrameDecodeError("frame", f"{what} {number} is out of range")


def _is_run(run: RunInfo) -> bool:
    names = (run.algorithm, run.task, run.sim_backend, run.step_axis)
    is_tag = len(run.reward_tag) <= MAX_TAG_BYTES
    return is_tag and max(map(len, names)) <= MAX_RUN_CHARS


def _is_spool(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and len(path) <= _MAX_PATH_CHARS


def _is_lease(identity: Identity) -> bool:
    """A source's lease lies in its spool: not on another's file, nor on ours."""
    spool = posixpath.normpath(identity.spool_path)
    return posixpath.normpath(identity.lease_path) == posixpath.join(spool, LEASE_NAME)
