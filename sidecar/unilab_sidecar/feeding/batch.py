"""What the feed hands to the series: immutable, bounded, free of sockets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unilab_schema.control import Head
from unilab_schema.requests import Snapshot
from unilab_sidecar.feeding.questions import Answer
from unilab_sidecar.feeding.summary import Summary

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord
    from unilab_metrics.subscribe.ssh.outage import Outage


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the feed cannot go on, and the exit code that says so."""

    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Batch:
    """New history entries in order, and what is known about the run besides.

    ``head``: the newest announcement, ``None`` before the first. ``snapshot``: newest values
    of all tags, once after joining, and again after updates were passed over. ``head_age_s``:
    seconds since ``head`` came, ``late_s``: how long it was on its way, at least. ``behind``: the
    history up to now has not all been handed over yet. ``summary``: what an ended run says of
    itself, where no announcement can. ``gone``: nobody is at work on the run any more; who is gone,
    by name; ``is_untold``: that will be known in a few seconds. ``refusal``: the aggregator does not let us in any more, and why, empty while
    it does. ``outage``: what keeps from hearing the run's machine, asked for in silence only.
    ``ended``: how the run has ended, where nobody there is left to announce it, empty otherwise.
    ``failure``: nothing follows. ``answers``: to what was asked with ``Feed.ask``.
    ``restarted``: what was handed over before is of another place of the history. ``far``: much
    more is there already and comes next, after a stop of this viewer for one. ``lost_entries``:
    of the history, so far, that nobody can read. ``passed_over``: updates, so far, that this viewer
    was too far behind to read, ``passed_over_s``: since the last of them were. ``is_followed``: a
    training has begun again after the end that was read last, and no entry tells of it yet.
    """

    records: tuple[HistoryRecord, ...] = ()
    head: Head | None = None
    snapshot: Snapshot | None = None
    connected: bool = False
    head_age_s: float = 0.0
    late_s: float = 0.0
    behind: bool = False
    summary: Summary | None = None
    gone: tuple[str, ...] | None = None
    is_untold: bool = False
    ended: str = ""
    refusal: str = ""
    outage: Outage | None = None
    failure: Failure | None = None
    answers: tuple[Answer, ...] = ()
    restarted: bool = False
    far: bool = False
    lost_entries: int = 0
    passed_over: int = 0
    passed_over_s: float | None = None
    is_followed: bool = False
