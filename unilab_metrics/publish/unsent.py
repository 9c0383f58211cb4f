"""Saying what a process leaves behind when it ends: how much, where, why, and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.publish.delivery import DUPLICATE, Delivery
from unilab_metrics.publish.warning import warn_caller
from unilab_metrics.wording import agreeing, counted

_SILENT_AFTER_S = 3.0
BAD_MESSAGE = "bad_message: "
"""What a process says of itself is nothing that the aggregator reads, nor another one of its
version."""
_FULL = ("no room for", *(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)))


def reason(delivery: Delivery, trouble: str, now_ns: int) -> str:
    """Why what there is has not gone out. ``trouble``: what is wrong with the helper that
    this process starts. Empty if an aggregator is there, which had too little time."""
    silent_s = (now_ns - delivery.answered_ns) / 1e9
    if delivery.refused:
        return delivery.refused
    if delivery.put_off:
        return delivery.put_off
    if delivery.answered_ns and silent_s < _SILENT_AFTER_S:
        return delivery.journal_full
    if trouble:
        return f"no aggregator: it {trouble}"
    if delivery.answered_ns:
        return f"the aggregator has been silent for {silent_s:.0f} s"
    return "no aggregator has answered"


class Rest(NamedTuple):
    """What was not delivered. ``unsent``: records that are in no journal; ``unsynced``: also
    those that are not on its disk. ``end_trouble``: why the end record is not in the spool.
    ``awaited``: what the end of the run waits for, as the aggregator says."""

    unsent: int
    unsynced: int = 0
    end_trouble: str = ""
    awaited: str = ""


def left_behind(
    rest: Rest, spool: Path, run_dir: Path | None, why: str, *, is_elsewhere: bool = False
) -> str:
    """One line: what is left, where it is, why, and how it will be delivered.

    ``why``: empty if an aggregator is at work. ``run_dir``: ``None`` for a process that has not
    found its run, or not on its node. ``is_elsewhere``: the run is on another node, and its
    directory not to be seen from this one.
    """
    folder = "RUN_DIR" if run_dir is None else shlex.quote(os.fspath(run_dir))
    command = f"`unilab-metrics recover {folder}`"
    if rest.unsent and why.startswith(DUPLICATE):
        return f"{rest.unsent} unsent: these frames wait in {spool} ({why}), and will count as late"
    if rest.unsent and why.startswith(BAD_MESSAGE):
        return (
            f"{rest.unsent} unsent: these frames wait in {spool} ({why}); no aggregator of that "
            "version takes them in: see whether the run has one version everywhere"
        )
    first = _first(rest.end_trouble if rest.end_trouble and not rest.unsent else why)
    if rest.unsent:
        why = why or "the time was too short"
        how = f"{first}{command} delivers them"
        if run_dir is None or is_elsewhere:
            # It takes in what lies on its own node, and may not see the run from here.
            launch = shlex.quote(os.fspath(spool.parent))
            far = (
                "the launch's next attempt takes them in, or on rank 0's node "
                f"`unilab-metrics recover {folder} --spool COPY` with a COPY of {launch}"
            )
            how = far if is_elsewhere else f"on rank 0's node {how}; on another one {far}"
        return f"{rest.unsent} unsent: these frames wait in {spool} ({why}); {how}"
    if rest.end_trouble:
        return (
            f"the end of this process could not be written ({rest.end_trouble}); its frames are in "
            f"the journal of {folder}, and {command} ends the run{_once(first)}"
        )
    if rest.unsynced:
        return (
            f"{rest.unsynced} unsynced: these frames are in the journal of {folder}, whose disk has "
            f"not confirmed them ({why or 'the time was too short'}), and wait in {spool} too; the "
            f"aggregator or {command} completes that{_once(first)}"
        )
    if why:
        return f"the run is not complete in every backend ({why}); {first}{command} completes it"
    awaited = rest.awaited or "the time was too short"
    return (
        f"the run is not complete in every backend yet ({awaited}): everything of this process is "
        f"in the journal of {folder}, its aggregator goes on with it; if that ends before, "
        f"{command} completes it"
    )


def _first(why: str) -> str:
    """What has to be done before anything else helps."""
    if "file-size limit" in why:
        return "raise that limit, then "
    return "make room there, then " if any(word in why for word in _FULL) else ""


def _once(first: str) -> str:
    """The same at the end of a sentence."""
    if not first:
        return ""
    return ", once that limit is raised" if "limit" in first else ", once there is room"


def without_run(unsent: int, spool: Path, why: str) -> str:
    """As :func:`left_behind`, for a run that this process could not open."""
    make = _make_run("RUN_DIR", spool, ", with a RUN_DIR that can be written,")
    return (
        f"{unsent} unsent: these frames wait in {spool} (there is no run directory: {why}); {make}"
    )


def before_run(unsent: int, spool: Path, run_dir: Path) -> str:
    """As :func:`left_behind`, for a process whose rank 0 has never opened the run."""
    make = _make_run(shlex.quote(os.fspath(run_dir)), spool)
    return (
        f"{unsent} unsent: these frames wait in {spool} (no run is to be seen in {run_dir}); the "
        f"next attempt with that run directory takes them in, or {make}"
    )


def _make_run(folder: str, spool: Path, remark: str = "") -> str:
    launch = shlex.quote(os.fspath(spool.parent))
    return (
        f"`mkdir -m 700 -p {folder}/bus`{remark} and "
        f"`unilab-metrics aggregate {folder} --spool {launch}` make a run of them"
    )


def untold(calls: int, trouble: str, why: str) -> str:
    """As :func:`left_behind`, for a process that has never had a spool."""
    were = agreeing(calls, "was", "were")
    return (
        f"{counted(calls, 'call')} of this process {were} not logged ({trouble}), and no aggregator could be "
        f"told of it ({why or 'the time was too short'})"
    )


def awaited(rest: Rest, why: str) -> str:
    """What the last process of a run waits for, as the object of a sentence."""
    if rest.unsent:
        because = f"; {why}" if why else ""
        return f"the aggregator ({counted(rest.unsent, 'record')} unsent{because})"
    if rest.end_trouble:
        return f"room for the end of this process ({rest.end_trouble})"
    if rest.unsynced:
        because = f"; {why}" if why else ""
        return f"the journal's disk ({counted(rest.unsynced, 'record')} unsynced{because})"
    because = why or rest.awaited
    return f"the end of the run ({because})" if because else "the end of the run"


def still_closing(unsent: int) -> str:
    """For a thread whose time to wait for another one's ``close()`` is over."""
    records = counted(unsent, "record is", "records are")
    return (
        f"{records} not delivered yet: another thread is in close(), goes on with it and says what "
        "comes of it"
    )


def say(text: str, *, is_exiting: bool) -> None:
    """One ``RuntimeWarning``, or at the exit one line of the error output; never raises."""
    if text and (is_exiting or not warn_caller(text)):
        write_line(text)


def write_line(text: str) -> None:
    """One line of the error output; never raises."""
    with contextlib.suppress(Exception):
        if sys.stderr is not None:
            print(f"unilab-metrics: {text}", file=sys.stderr, flush=True)  # noqa: T201
