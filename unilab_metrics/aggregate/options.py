"""What an aggregator is started with; the port through which it starts its writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from unilab_metrics.helper_life import Heard, Trouble


class BackendProcess(Protocol):
    """A writer that somebody starts, and starts again when it dies; called once a turn."""

    def __call__(self, *, hurry: bool, heard: Heard | None) -> object:
        """Look after the process once; never blocks, never raises. ``hurry``: the run is ending,
        so one that waits for its next start is started at once. ``heard``: its last word."""
        ...

    def take_troubles(self) -> Sequence[Trouble]:
        """What has happened to it since the last call."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and will not be started again."""
        ...


class NodeSample(NamedTuple):
    """What this node says of itself, by ``Node/…`` tag, and when it was read (0: never)."""

    mono_ns: int
    values: Mapping[str, float]


NodeFigures = Callable[[int], NodeSample]
"""The newest sample as of a monotonic time; never blocks, never raises."""


def no_figures(_now_mono_ns: int) -> NodeSample:
    """Of a node that nobody samples."""
    return NodeSample(0, {})


@dataclass(frozen=True, kw_only=True)
class Options:
    """``start_grace_s``: how long to wait for the first source. ``lost_after_s``: silence of a
    source on another node after which it is dead. ``drain_s``: how long the backends may take
    at the end, and how long SIGTERM waits for the sources. ``bind``: where to listen on TCP,
    empty for not at all; ``job_address``: a host of the same job, for finding out which of our
    addresses the others reach. ``alerts``: rules of users. ``alert_webhook``: a URL, empty for
    none. ``node``: what this node says of itself."""

    spool_directories: Sequence[Path] = ()
    start_grace_s: float = 60.0
    lost_after_s: float = 60.0
    straggler_deadline_s: float = 30.0
    drain_s: float = 30.0
    launch: str = ""
    bind: str = ""
    job_address: str = ""
    alerts: Sequence[str] = ()
    alert_webhook: str = ""
    node: NodeFigures = no_figures
    backends: Mapping[str, BackendProcess] = field(default_factory=dict[str, BackendProcess])
