"""Runs below a log root that are not listed as live: where they lie and how they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.outcome import COMPLETED, FAILED, STOPPED
from unilab_metrics.run.bus_settings import SETTINGS_FILE, read_settings
from unilab_metrics.run.launching.told_figures import figure_in
from unilab_metrics.run.losses import count_lost
from unilab_metrics.run.summary import ended_in, read_summary
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments, read_segment
from unilab_metrics.storage.spool_places import live_processes, spool_places
from unilab_metrics.transport.rendezvous import (
    AGGREGATOR_LEASE,
    CONNECTION_FILE,
    aggregator_lease,
    bus_directory,
)
from unilab_metrics.wording import counted
from unilab_schema.codec import KIND_OF
from unilab_schema.updates import RunEnded, UpdateLayout

MAX_DEPTH = 4
_STATES = {COMPLETED: "done", FAILED: "failed", STOPPED: "stopped"}
_DATED = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d")


def past_runs(log_root: Path) -> list[Path]:
    """Run directories up to ``MAX_DEPTH`` folders below, links resolved, the newest first.
    What may not be listed is left out."""
    runs = dict.fromkeys(path.resolve() for path in _runs(log_root, MAX_DEPTH))
    return sorted(runs, key=lambda path: (started(path), path.name), reverse=True)


def started(run_dir: Path) -> str:
    """Day and minute: what the name says, else when the directory got its newest file."""
    if _DATED.match(run_dir.name):
        day, _, rest = run_dir.name.partition("_")
        return f"{day} {rest[:5].replace('-', ':')}"
    with suppress(OSError):
        changed = datetime.fromtimestamp(run_dir.stat().st_mtime).astimezone()
        return f"{changed:%Y-%m-%d %H:%M}"
    return ""


def state_of(run_dir: Path) -> str:
    """``done``, ``failed``, ``stopped`` (on purpose), ``ended`` (nobody can tell how), ``live`` (an
    aggregator or a process of the run on this node) or ``cut off``: nobody has ended it and nobody
    is at work on it."""
    summary = read_summary(run_dir)
    status = None if (summary or {}).get("status") is None else ended_in(summary or {})
    bus_dir = bus_directory(run_dir)
    try:
        if not bus_dir.is_dir():
            return _STATES.get(str(status), "ended")
        if settled_pid(aggregator_lease(run_dir)) is not None:
            return "live"
        if str(status) in _STATES:
            return _STATES[str(status)]
        if live_processes(spool_places(read_settings(run_dir), []), []):
            return "live"
        return "ended" if status is not None or _has_ended(bus_dir) else "cut off"
    except OSError:
        return "ended"


def alerts_of(run_dir: Path) -> str:
    """How many alerts a run that has ended told of, and how many of them had not ended; empty for
    none, and for a run without a summary."""
    bus = cast("dict[str, Any]", (read_summary(run_dir) or {}).get("bus") or {})
    told = cast("dict[str, int]", bus.get("alerts") or {})
    raised, is_open = told.get("raised", 0), told.get("open", 0)
    if not raised:
        return ""
    return counted(raised, "alert") + (f", {is_open:,} still open" if is_open else "")


def lost_of(run_dir: Path) -> str:
    """How many processes of a run that has ended were killed or gone without a goodbye; empty for
    none, and for a run without a summary."""
    lost = count_lost(read_summary(run_dir) or {})
    return counted(lost, "process lost", "processes lost") if lost else ""


def figures_of(run_dir: Path) -> list[str]:
    """How far a run that has ended came, how long that took, and its last reward, as its summary
    says; what that does not say is left out."""
    summary = read_summary(run_dir) or {}
    iterations = figure_in(summary, "completed_iterations")
    lasted_s = figure_in(summary, "training_wall_time_sec")
    reward = figure_in(summary, "final_mean_reward")
    told = [counted(int(iterations), "iteration")] if iterations else []
    told += [_duration(lasted_s)] if lasted_s else []
    return told + ([f"reward {reward:.4g}"] if reward is not None else [])


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{seconds:.1f}s"


def _has_ended(bus_dir: Path) -> bool:
    """Whether the history's last word is an end."""
    for path in reversed(list_segments(bus_dir, "history")):
        entries = [record.kind for record in scan(read_segment(path)).records if record.sequence]
        entries = [kind for kind in entries if kind != KIND_OF[UpdateLayout]]
        if entries:
            return entries[-1] == KIND_OF[RunEnded]
    return False


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    if _is_run(folder):
        yield folder
        return
    if not depth:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in sorted(e.name for e in entries if e.is_dir(follow_symlinks=False)):
            yield from _runs(folder / name, depth - 1)


def _is_run(folder: Path) -> bool:
    bus_dir = bus_directory(folder)
    marks = [folder / RUN_CONFIG_FILE]
    marks += [bus_dir / name for name in (SETTINGS_FILE, CONNECTION_FILE, AGGREGATOR_LEASE)]
    try:
        return any(mark.is_file() for mark in marks) or bool(list_segments(bus_dir, "history"))
    except OSError:
        return False
