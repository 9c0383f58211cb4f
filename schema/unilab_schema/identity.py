"""Who publishes: the identity of a source and what rank 0 says about its run."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = str
"""``learner``, ``collector``, or another name that a user chose."""

StepAxis = Literal["iteration", "env_steps", "wall_time"]
"""What a backend's step counts; ``iteration`` for on-policy, ``env_steps`` for off-policy runs."""

LEARNER: Role = "learner"
COLLECTOR: Role = "collector"

MAX_RANKS = 65_536
MAX_INSTANCES = 65_536
MAX_NAME_CHARS = 256
"""Of a role, a host, a version."""
MAX_RUN_CHARS = 4096
"""Of an algorithm, a task, a simulator's name."""


class SourceKey(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The place a source holds in the run; an incarnation is one process in that place.

    The order (rank, role, instance) is the order in which values are added over ranks.
    """

    rank: int
    role: Role
    instance: int = 0

    @property
    def place(self) -> str:
        """For messages: ``learner of rank 0``, ``collector 1 of rank 0``."""
        which = f" {self.instance}" if self.instance else ""
        return f"{self.role}{which} of rank {self.rank}"


class RunInfo(msgspec.Struct, frozen=True, array_like=True):
    """What learner rank 0 says about the run; where it never comes, another learner's copy stands in.

    ``reward_tag``: the one tag that means the reward; where it is empty, the names that libraries
    use are known (``unilab_schema.known_names``).
    """

    algorithm: str = ""
    task: str = ""
    sim_backend: str = ""
    step_axis: StepAxis = "iteration"
    max_iterations: int | None = None
    strict: bool = False
    world_size: int = 1
    reward_tag: str = ""


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """One process in one place of the run; the first record of each of its spool segments.

    ``incarnation``: 16 random bytes per process start. ``boot_id``: the node's boot id,
    which says whether two monotonic clocks can be compared. ``lease_path``: the file whose
    lock the process holds while it lives. ``expected_learners``: how many learner ranks
    publish iterations (some libraries log on rank 0 only). ``pid_space``: names the pid
    namespace in which ``pid`` counts, 0 where the system has none.
    """

    key: SourceKey
    incarnation: bytes
    pid: int
    host: str
    boot_id: str
    spool_path: str
    lease_path: str
    started_mono_ns: int
    started_unix_ns: int
    expected_learners: int = 1
    run: RunInfo = RunInfo()
    version: str = ""
    pid_space: int = 0
