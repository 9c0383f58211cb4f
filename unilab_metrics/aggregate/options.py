"""What an aggregator is started with; the port through which it starts its writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class BackendProcess(Protocol):
    """A writer that somebody starts, and starts again when it dies; called once a turn."""

    def __call__(self, *, hurry: bool) -> object:
        """Look after the process once; never blocks, never raises. ``hurry``: the run is ending,
        so one that waits for its next start is started at once."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and will not be started again."""
        ...


@dataclass(frozen=True, kw_only=True)
class Options:
    """``start_grace_s``: how long to wait for the first source. ``lost_after_s``: silence of a
    source on another node after which it is dead. ``drain_s``: how long the backends may take
    at the end, and how long SIGTERM waits for the sources."""

    spool_directories: Sequence[Path] = ()
    start_grace_s: float = 60.0
    lost_after_s: float = 60.0
    straggler_deadline_s: float = 30.0
    drain_s: float = 30.0
    launch: str = ""
    backends: Mapping[str, BackendProcess] = field(default_factory=dict[str, BackendProcess])
