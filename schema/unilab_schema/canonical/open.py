"""What the canonical table leaves open: families of tags, reserved names, terminal-only tags."""

from __future__ import annotations

from unilab_schema.canonical.bus import BUS_FAMILY, TROUBLE_FAMILY
from unilab_schema.canonical.node import NODE_FAMILIES
from unilab_schema.metric_spec import MetricSpec, OverRanks

FAMILIES: tuple[MetricSpec, ...] = (
    MetricSpec(
        "reward/*",
        "environment/reward",
        "weighted reward rate (per s)",
        over_time="mean",
        description="Raw value times weight of one reward term, mean over environments, not × dt.",
    ),
    MetricSpec(
        "Episode_Termination/*",
        "environment/termination",
        "environments",
        "sum",
        "sum",
        description="Environments that this term reset in the iteration.",
    ),
    MetricSpec(
        "Loss/aux_*",
        "learner",
        "dimensionless objective",
        description="An auxiliary loss of the algorithm.",
    ),
    BUS_FAMILY,
    TROUBLE_FAMILY,
    *NODE_FAMILIES,
)

RESERVED: frozenset[str] = frozenset({"reward/", "reward/mean", "reward/mean_ep100"})
"""Legacy names whose meaning changed; refused in every mode, so that no curve mixes two."""


def _terminal(
    name: str, unit: str, over_ranks: OverRanks, label: str, description: str
) -> MetricSpec:
    tag = f"Terminal/{name}"
    return MetricSpec(
        tag, "runner", unit, over_ranks, label=label, description=description, persisted=False
    )


TERMINAL_ONLY: tuple[MetricSpec, ...] = (
    _terminal(
        "replay_rows_per_s",
        "rows/s",
        "sum",
        "Rows/s",
        "Replay rows that learners consumed per second, summed over ranks; absent for APPO.",
    ),
    _terminal("buffer_size", "rows", "sum", "Buffer", "Rows in the replay buffers."),
    _terminal("buffer_capacity", "rows", "sum", "Capacity", "Rows that the buffers can hold."),
    _terminal("num_envs", "environments", "sum", "Envs", "Environments of all ranks."),
    _terminal("batch_per_rank", "rows", "mean", "Batch/Rank", "Replay rows of one update."),
    _terminal("mps", "state", "rank0", "CUDA MPS", "0 off, 1 ambient, 2 on."),
)
