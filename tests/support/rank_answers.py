"""Answers of an aggregator about the ranks of a made-up SAC run, and tables made from them."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping

from unilab_schema.control import Epoch
from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.ranks.table import RankStore, RankTable

EPOCH = Epoch(b"j" * 16, 1)
ITERATION = 48_210
WALL_S = 0.1199
SAMPLES = 17
"""Iterations of that length in two seconds."""

Values = Mapping[str, float]
"""Tags to values; an age beside a value where it is not that of the row: ``(value, age)``."""


def learner_values(rank: int, chance: random.Random) -> dict[str, float]:
    """What a learner logs in an iteration; rank 5 learns a quarter longer."""
    learning_s = (0.0801 + chance.gauss(0, 0.0002)) * (1.25 if rank == 5 else 1.0)
    wall_s = learning_s + 0.0398
    return {
        "Perf/iteration_time": wall_s,
        "Perf/learning_time": learning_s,
        "Perf/learner_collector_wait_ms": 24.1 + chance.gauss(0, 0.2),
        "Perf/learner_inference_ms": 9.2,
        "Perf/learner_replay_sample_ms": 4.4,
        "Perf/total_fps": 128 / wall_s,
        "Loss/critic": 1.25 + chance.gauss(0, 0.02),
        "Loss/actor": -31.2 + chance.gauss(0, 0.1),
        "Train/mean_reward": 412.0 + chance.gauss(0, 9.0),
    }


def collector_values(chance: random.Random) -> dict[str, float]:
    """What a collector reports."""
    return {
        "Perf/collector_inference_request_ms": 0.3,
        "Perf/collector_learner_action_wait_ms": 71.2 + chance.gauss(0, 0.4),
        "Perf/collector_env_step_ms": 36.4 + chance.gauss(0, 0.3),
        "Perf/collector_replay_write_ms": 8.1,
    }


def row(
    key: SourceKey,
    values: Values,
    tags: tuple[str, ...],
    *,
    state: str = "live",
    age_s: float = 0.08,
    iteration: int | None = None,
    ages: Values | None = None,
) -> RankRow:
    """A source; ``ages``: of the values that are older than its newest frame."""
    own = {tag: (ages or {}).get(tag, age_s) for tag in values}
    return RankRow(
        key, state, age_s, age_s, iteration, None, 9000,
        struct.pack(f"<{len(tags)}d", *(values.get(tag, math.nan) for tag in tags)),
        struct.pack(f"<{len(tags)}d", *(own.get(tag, math.nan) for tag in tags)),
        samples=SAMPLES,
    )  # fmt: skip


def spread_of(values: Mapping[SourceKey, float]) -> RankSpread:
    """As the aggregator makes it."""
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    if not finite:
        return RankSpread(0, len(values))
    low, high = min(finite, key=lambda k: finite[k]), max(finite, key=lambda k: finite[k])
    mean = sum(finite.values()) / len(finite)
    count = len(finite)
    return RankSpread(count, len(values) - count, finite[low], mean, finite[high], low, high)


def reply(
    sources: Mapping[SourceKey, Values],
    *,
    states: Mapping[SourceKey, str] | None = None,
    ages_s: Mapping[SourceKey, float] | None = None,
    behind: Mapping[SourceKey, int] | None = None,
    mono_ns: int = 1_000_000_000,
    expected: int | None = None,
    left_out: tuple[int, int] = (0, 0),
    attempt: int = 1,
) -> RankValues:
    """The aggregator's answer about these sources, which it asked for all tags that there are."""
    tags = tuple(dict.fromkeys(tag for values in sources.values() for tag in values))
    states, ages_s, behind = states or {}, ages_s or {}, behind or {}
    rows = tuple(
        row(
            key,
            values,
            tags,
            state=states.get(key, "live"),
            age_s=ages_s.get(key, 0.08),
            iteration=ITERATION - behind.get(key, 0) if key.role == LEARNER else None,
        )
        for key, values in sorted(sources.items())
    )
    standing = {k: v for k, v in sources.items() if states.get(k) != "lost"}
    spreads = tuple(
        spread_of({key: values[tag] for key, values in standing.items() if tag in values})
        for tag in tags
    )
    learners = sum(key.role == LEARNER for key in sources)
    return RankValues(
        1, EPOCH, attempt, mono_ns, learners if expected is None else expected,
        tags, rows, spreads, *left_out,
    )  # fmt: skip


def run_of(
    ranks: int, *, collectors: int = 1, lost: int | None = None, silent: int | None = None
) -> RankValues:
    """A run of which one rank may be lost (with its collectors) and one silent."""
    chance = random.Random(7)
    sources: dict[SourceKey, Values] = {}
    for rank in range(ranks):
        sources[SourceKey(rank, LEARNER)] = learner_values(rank, chance)
        for instance in range(collectors):
            sources[SourceKey(rank, COLLECTOR, instance)] = collector_values(chance)
    gone = [key for key in sources if key.rank == lost]
    still = [key for key in sources if key.rank == silent and key.role == LEARNER]
    return reply(
        sources,
        states=dict.fromkeys(gone, "lost") | dict.fromkeys(still, "silent"),
        ages_s=dict.fromkeys(gone, 74.0) | dict.fromkeys(still, 11.2),
        behind=dict.fromkeys(gone, 617) | dict.fromkeys(still, 1),
    )


def table_of(*replies: RankValues, algorithm: str = "sac") -> RankTable:
    """The table after these answers."""
    store = RankStore()
    for one in replies:
        store.add(Answer(RanksQuestion(), one), algorithm)
    return store.table(tuple(sorted(replies[-1].tags)))
