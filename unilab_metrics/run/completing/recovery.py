"""What a recovery of a run has done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.offline import Taken
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.run.completing.backend_completion import BackendResult
from unilab_schema.identity import Identity


class Recovery(NamedTuple):
    """What was done. ``ended``: the text of a ``RunEnded`` that was missing, else ``None``.
    ``late_values``: what is in the journal and in no backend, because its iteration has those
    tags already or its attempt was replaced. ``faults``: what of the journal was damaged, in words,
    ``history_fault`` and ``gone``, what no half of it has, among them.
    ``elsewhere``: sources without a goodbye whose spools are not on this node. ``refused``:
    spools that were left where they are, or a file that does not say where they lie, and why.
    ``removed``: spool directories. ``absent``: of the ``learners`` that the newest attempt
    expects, the ranks that have never come."""

    run_dir: Path
    outcome: RunOutcome
    taken: Sequence[Taken]
    iterations_sealed: int
    supplements: int
    ended: str | None
    elsewhere: Sequence[Identity]
    refused: dict[str, str]
    damaged_records: int
    faults: Sequence[str]
    late_values: int
    backends: Sequence[BackendResult]
    removed: int
    wrote_summary: bool
    seconds: float
    learners: int = 1
    absent: Sequence[int] = ()
    history_fault: str = ""
    gone: str = ""

    @property
    def did_something(self) -> bool:
        """False if the run was complete already."""
        return bool(
            self.taken
            or self.iterations_sealed
            or self.supplements
            or self.ended is not None
            or self.removed
            or self.wrote_summary
            or self.faults
            or self.damaged_records
            or any(backend.after != backend.before for backend in self.backends)
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do on this node."""
        return not self.refused and not any(backend.problem for backend in self.backends)
