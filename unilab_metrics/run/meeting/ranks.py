"""Global rank and world size from what the launcher said. Pure over a mapping.

A node-local rank is never a global one: two nodes would both have a rank 0, hence two runs
and two writers. ``LOCAL_RANK`` counts only where the environment proves a single node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Place(NamedTuple):
    """Where this process stands in its training.

    ``origin``: what said so, for messages (``argument``, a variable's name, ``none``).
    ``doubt``: why the answer may be wrong, empty when there is no sign of that.
    """

    rank: int
    world_size: int
    origin: str
    doubt: str = ""


class _Launcher(NamedTuple):
    rank: str
    world_sizes: tuple[str, ...]


_LAUNCHERS = (
    _Launcher("RANK", ("WORLD_SIZE",)),
    _Launcher("UNILAB_DP_RANK", ("UNILAB_DP_WORLD_SIZE",)),
    # A job's task count covers all its steps; the step's own count is the world.
    _Launcher("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    _Launcher("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    _Launcher("PMI_RANK", ("PMI_SIZE",)),
    _Launcher("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",)),
    _Launcher("HOROVOD_RANK", ("HOROVOD_SIZE",)),
    _Launcher("JAX_PROCESS_ID", ("JAX_NUM_PROCESSES",)),
)
_NODE_COUNTS = ("GROUP_WORLD_SIZE", "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_WORLD_AND_LOCAL = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
)
_INTERACTIVE_JOBS = frozenset({"bash", "sh", "zsh", "interactive"})


def resolve_place(
    environ: Mapping[str, str], *, rank: int | None = None, world_size: int | None = None
) -> Place:
    """Rank and world size: arguments, then ``RANK``, then the other launchers' variables.

    Without any of them the process is rank 0 of 1. A variable that is no rank (not a number,
    outside its world) is passed over and named in ``doubt``. Raises ``ValueError`` for
    arguments that contradict each other.
    """
    doubts: list[str] = []
    found = _from_environment(environ, doubts)
    if rank is None and world_size is None:
        return found._replace(doubt="; ".join(doubts))
    if rank is None:
        rank = found.rank
    if world_size is None:
        world_size = max(found.world_size, rank + 1)
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} does not lie in a world of {world_size}")
    return Place(rank, world_size, "argument")


def is_single_node(environ: Mapping[str, str]) -> bool:
    """Whether the environment proves that every rank runs on this node."""
    counts = [_number(environ.get(name)) for name in _NODE_COUNTS]
    if any(count is not None and count > 1 for count in counts):
        return False
    world = _number(environ.get("WORLD_SIZE"))
    local = _number(environ.get("LOCAL_WORLD_SIZE"))
    if world is not None and local is not None:
        return world == local
    return any(count == 1 for count in counts)


def spans_nodes(environ: Mapping[str, str]) -> bool:
    """Whether the launcher says that the job has ranks on other nodes too."""
    counts = [_number(environ.get(name)) for name in _NODE_COUNTS]
    if any(count is not None and count > 1 for count in counts):
        return environ.get("SLURM_JOB_NAME") not in _INTERACTIVE_JOBS
    for world_name, local_name in _WORLD_AND_LOCAL:
        world, local = _number(environ.get(world_name)), _number(environ.get(local_name))
        if world is not None and local is not None and local > 0:
            return world > local
    return False


def _from_environment(environ: Mapping[str, str], doubts: list[str]) -> Place:
    for launcher in _LAUNCHERS:
        if launcher.rank == "SLURM_PROCID" and environ.get("SLURM_JOB_NAME") in _INTERACTIVE_JOBS:
            continue  # a shell on a node is task 0 of a job whose other tasks do not exist
        text = environ.get(launcher.rank)
        if text is None:
            continue
        rank = _number(text)
        world_size = _first_number(environ, launcher.world_sizes)
        if world_size is None and rank is not None:
            world_size = max(_any_world_size(environ), rank + 1)
        if rank is None or world_size is None or not 0 <= rank < world_size:
            doubts.append(f"{launcher.rank}={text} is no rank of {world_size}")
            continue
        return Place(rank, world_size, launcher.rank)
    return _from_local_rank(environ, doubts)


def _from_local_rank(environ: Mapping[str, str], doubts: list[str]) -> Place:
    # The parent of UniLab's data-parallel ranks is rank 0 itself and has no rank variable.
    parent_of = _number(environ.get("UNILAB_DP_WORLD_SIZE"))
    if parent_of is not None and parent_of >= 1:
        return Place(0, parent_of, "UNILAB_DP_WORLD_SIZE")
    text = environ.get("LOCAL_RANK")
    if text is None:
        return Place(0, 1, "none")
    rank = _number(text)
    world_size = _first_number(environ, ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if rank is None or world_size is None or not 0 <= rank < world_size:
        doubts.append(f"LOCAL_RANK={text} without a world size says nothing about the rank")
    elif not is_single_node(environ):
        doubts.append(f"LOCAL_RANK={text} is the rank on a node, and there may be several nodes")
    else:
        return Place(rank, world_size, "LOCAL_RANK")
    return Place(0, 1, "none")


def _any_world_size(environ: Mapping[str, str]) -> int:
    names = [name for launcher in _LAUNCHERS[:2] for name in launcher.world_sizes]
    return _first_number(environ, names) or 1


def _first_number(environ: Mapping[str, str], names: tuple[str, ...] | list[str]) -> int | None:
    for name in names:
        number = _number(environ.get(name))
        if number is not None:
            return number
    return None


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    stripped = text.strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() else None
