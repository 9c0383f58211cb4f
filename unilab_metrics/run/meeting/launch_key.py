"""The launch key: what the processes of one launch on a node agree on.

It names their common spool directory and the file in which the other ranks look for the run
that rank 0 opened. Two rules, because neither suffices alone:

- A run directory that is known beforehand is the key; every rank and every restart has it.
- Otherwise siblings are those with the same parent *process* (pid and its start), the same
  rendezvous address and the same world. A shell may be the parent of many launches, so who
  reads the file also checks that the rank 0 that wrote it is alive. torchrun's agent is the
  parent of one launch only, and may change port and world when it starts the ranks again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TORCHRUN_VARIABLE = "TORCHELASTIC_RUN_ID"
_RENDEZVOUS = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_orte_ess_jobid",
)


class ProcessName(NamedTuple):
    """A process that no later one can be taken for: ``start`` is its start on the boot clock."""

    pid: int
    start: str


class Node(NamedTuple):
    """Whose key it is: keys of other boots and users never match."""

    boot_id: str
    uid: int


def run_key(node: Node, run_dir: Path) -> str:
    """Key of a run whose directory is known (absolute). It survives a reboot, so that the
    next attempt finds what the last one left in its spools."""
    return _digest("run", node.uid, run_dir)


def alone_key(node: Node, process: ProcessName, opened: int) -> str:
    """Key of a training of one rank: of the process itself and how many runs it opened."""
    return _digest("alone", *node, *process, opened)


def siblings_key(
    node: Node, parent: ProcessName, environ: Mapping[str, str], world_size: int, opened: int
) -> str:
    """Key of a training of several ranks that one launcher started on this node."""
    if TORCHRUN_VARIABLE in environ:
        return _digest("torchrun", *node, *parent, environ[TORCHRUN_VARIABLE], opened)
    rendezvous = [environ.get(name, "") for name in _RENDEZVOUS]
    return _digest("siblings", *node, *parent, *rendezvous, world_size, opened)


def _digest(*parts: object) -> str:
    text = "\0".join(str(part) for part in parts)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:20]
