"""What the feed hands to the series: immutable, bounded, free of sockets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unilab_schema.control import Head, Snapshot
from unilab_sidecar.questions import Answer
from unilab_sidecar.summary import Summary

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the feed cannot go on, and the exit code that says so."""

    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Batch:
    """New history entries in order, and what is known about the run besides.

    ``head``: the newest announcement, ``None`` before the first. ``snapshot``: newest values
    of all tags, once after joining. ``head_age_s``: seconds since ``head`` came. ``behind``: the
    history up to now has not all been handed over yet. ``summary``: what an ended run
    says of itself, where no announcement can. ``gone``: nobody is at work on the run any more; who is
    gone, by name. ``refusal``: the aggregator does not let us in any more, and why, empty while
    it does. ``failure``: nothing follows. ``answers``: to what was asked with ``Feed.ask``.
    ``restarted``: what was handed over before is of another place of the history.
    """

    records: tuple[HistoryRecord, ...] = ()
    head: Head | None = None
    snapshot: Snapshot | None = None
    connected: bool = False
    head_age_s: float = 0.0
    behind: bool = False
    summary: Summary | None = None
    gone: tuple[str, ...] | None = None
    refusal: str = ""
    failure: Failure | None = None
    answers: tuple[Answer, ...] = ()
    restarted: bool = False
