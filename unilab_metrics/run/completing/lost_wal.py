"""A wal that lacks what the run had safely written: completing such a run would cut the rest
off."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.aggregate.journaling.recovery import Recovered
from unilab_metrics.errors import ExitCode, MissingPackageError, StorageError
from unilab_metrics.run.verifying.event_points import held_position
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.wording import counted


class LostWalError(StorageError):
    """What its processes sent, and how they ended, is not known any more."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, run_dir: Path, problem: str) -> None:
        fix = "nothing is changed; put the wal back from a copy"
        super().__init__(bus_directory(run_dir), f"{problem}; {fix}")


def check_wal(run_dir: Path, found: Recovered) -> None:
    """Raises :class:`LostWalError` if :func:`wal_problem` finds one."""
    problem = wal_problem(run_dir, found)
    if problem:
        raise LostWalError(run_dir, problem)


def wal_problem(run_dir: Path, found: Recovered) -> str:
    """What the wal lacks, empty if it lacks nothing that anybody can tell.

    A loss of power costs what no backend has yet: they take only what is durable.
    """
    if found.wal_fault:
        return ""  # the journal knows it, keeps its history and goes on behind that
    try:
        position = held_position(run_dir).position
    except (OSError, MissingPackageError):
        return ""  # who completes the backend says what is wrong with it
    if position is None or found.journal_id is None or position.journal != found.journal_id.hex():
        return ""
    accounted = found.state.data.next_update - 1
    if position.update <= accounted:
        return ""
    known = counted(accounted, "update")
    return f"the wal accounts for {known}, tensorboard holds {position.update:,}"
