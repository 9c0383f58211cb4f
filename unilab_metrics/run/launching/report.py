"""What a launcher says when its training is over."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.drop_words import dropped_text
from unilab_metrics.errors import MissingPackageError
from unilab_metrics.outcome import COMPLETED, FAILURES
from unilab_metrics.run.launching.bus_end import summary_stamp
from unilab_metrics.run.launching.told_figures import alerts_text, nonfinite_text, reward_text
from unilab_metrics.run.losses import lost_texts
from unilab_metrics.run.summary import ended_in, read_summary
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_metrics.wording import counted

_MOST_RANKS = 8


def report_lines(
    run_dir: Path,
    *,
    stopped_by: int | None = None,
    with_backends: bool = True,
    most_bytes: int | None = None,
    earlier_summary: int = 0,
) -> list[str]:
    """Where the run lies, how it went, what every backend holds, what was lost, and what shows it
    again. Never raises.

    ``stopped_by``: the signal with which the launcher was asked to stop the training.
    ``with_backends``: reads their files, which takes a while for a long run; of files of more
    than ``most_bytes`` it is said that they are there. ``earlier_summary``: the stamp of a summary
    that is of an earlier attempt, and is not told as this one's.
    """
    lines = [f"Run directory  {_short(run_dir)}"]
    is_earlier = bool(earlier_summary) and summary_stamp(run_dir) == earlier_summary
    summary = None if is_earlier else read_summary(run_dir)
    if summary is None:
        return [*lines, *_without_summary(run_dir, is_earlier=is_earlier)]
    bus = cast("dict[str, Any]", summary.get("bus", {}))
    lines += [
        f"Status         {_status(summary, stopped_by)}",
        f"Iterations     {_number(summary.get('completed_iterations', 0))}"
        + _env_steps(summary)
        + f", {counted(bus.get('world_size', 1), 'rank')}"
        + f", {counted(len(bus.get('sources', [])), 'source')}",
    ]
    figures = (
        ("Mean reward", reward_text(summary)),
        ("NaN or inf", nonfinite_text(bus)),
        ("Alerts", alerts_text(bus)),
    )
    lines += [f"{title:<14} {text}" for title, text in figures if text]
    for name in bus.get("backends", {}) if with_backends else ():
        title, text = _backend(name, run_dir, most_bytes)
        lines.append(f"{title:<14} {text}")
    lines += [f"{'Failed':<14} {text}" for text in _failed(summary)]
    lines += [f"{'Lost':<14} {text}" for text in lost_texts(summary)]
    if late := late_text(bus):
        lines.append(f"{'Late':<14} {late}: in the journal, not in the backends")
    return [*lines, f"Dropped        {_dropped(bus)}", _again("replay", run_dir)]


def whole_or_short(lines: Callable[[bool], list[str]]) -> list[str]:
    """``lines(True)``; where Ctrl+C cuts that short, because backends are read at length or because
    it came late for the training, ``lines(False)``. Main thread."""
    try:
        return lines(True)
    except KeyboardInterrupt:
        return lines(False)


def late_text(bus: dict[str, Any]) -> str:
    """``450 values of rank 1``: what came when its iteration had its update; empty for nothing."""
    late = bus.get("late_values", 0)
    if not late:
        return ""
    sources = cast("list[dict[str, Any]]", bus.get("sources", []))
    known = [s.get("rank") for s in sources if s.get("late_values")]
    ranks = sorted({rank for rank in known if isinstance(rank, int)})
    shown = ", ".join(map(str, ranks[:_MOST_RANKS])) + ", …" * (len(ranks) > _MOST_RANKS)
    of = f" of rank{'s' * (len(ranks) > 1)} {shown}" if ranks else ""
    return f"{counted(late, 'value')}{of}"


def _failed(summary: dict[str, Any]) -> list[str]:
    """Who else has failed than the one that gave the run its status."""
    bus = cast("dict[str, Any]", summary.get("bus", {}))
    if ended_in(summary) != COMPLETED:
        return []
    sources = cast("list[dict[str, Any]]", bus.get("sources", []))
    failed = [f"{s.get('role')} of rank {s.get('rank')}" for s in sources if _has_failed(s)]
    return [", ".join(failed[:_MOST_RANKS]) + ", …" * (len(failed) > _MOST_RANKS)] if failed else []


def _has_failed(source: dict[str, Any]) -> bool:
    # Anybody may have put the file there.
    return str(source.get("ended")) in FAILURES


def _without_summary(run_dir: Path, *, is_earlier: bool) -> list[str]:
    try:
        pid = settled_pid(aggregator_lease(run_dir))
    except OSError:
        pid = None
    if pid is None:
        why = "none: the run ended before it could be written"
        if is_earlier:
            why = "of an earlier attempt; this one ended before its own could be written"
        lines = [f"Summary        {why}"]
        return [*lines, _again("replay", run_dir)] if _has_history(run_dir) else lines
    why = f"not yet: the aggregator (pid {pid}) is at work and puts {RUN_SUMMARY_FILE} there"
    return [f"Summary        {why}", _again("attach", run_dir)]


def _has_history(run_dir: Path) -> bool:
    try:
        return bool(list_segments(bus_directory(run_dir), "history"))
    except OSError:
        return False


def _again(command: str, run_dir: Path) -> str:
    return f"Look again     unilab-metrics {command} {shlex.quote(_short(run_dir))}"


def _backend(name: str, run_dir: Path, most_bytes: int | None) -> tuple[str, str]:
    title, count = _BACKENDS.get(name, (name, _written))
    return title, count(run_dir, most_bytes)


def _written(_run_dir: Path, _most_bytes: int | None) -> str:
    return "written"


def _tensorboard(run_dir: Path, most_bytes: int | None = None) -> str:
    from unilab_metrics.run.verifying.event_points import points_per_tag
    from unilab_metrics.run.verifying.verify_report import span
    from unilab_metrics.write.backends.event_files import own_files

    try:
        size = sum(path.stat().st_size for path in own_files(run_dir))
        if most_bytes is not None and size > most_bytes:
            return "written"
        counts = points_per_tag(run_dir)
    except (OSError, MissingPackageError) as error:
        return f"cannot be read: {error}"
    if not counts:
        return "no points"
    points = counted(max(counts.values()), "point")
    if min(counts.values()) != max(counts.values()):
        points = f"{span(counts.values())} points"
    return f"{counted(len(counts), 'tag')}, {points} each"


_BACKENDS: dict[str, tuple[str, Callable[[Path, int | None], str]]] = {
    "tensorboard": ("TensorBoard", _tensorboard),
}


def _dropped(bus: dict[str, Any]) -> str:
    drops = cast("dict[str, int]", dict(bus.get("dropped_calls", {})))
    if bus.get("lost_frames"):
        drops["lost frames"] = int(bus["lost_frames"])
    if bus.get("quarantined_frames"):
        drops["quarantined frames"] = int(bus["quarantined_frames"])
    return dropped_text(drops)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 40`` for one without a name. Pure."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending(status: int) -> str:
    """How a process ended, from its exit code or, negative, its signal. Pure."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with {status}"


def _status(summary: dict[str, Any], stopped_by: int | None) -> str:
    status = ended_in(summary)
    if status == COMPLETED:
        return status
    if stopped_by is not None:
        how = "Ctrl+C" if stopped_by == signal.SIGINT else signal_name(stopped_by)
        return f"stopped by {how}"
    kind, error = summary.get("error_type"), summary.get("error")
    # An exception without a text has its type for one.
    because = dict.fromkeys(str(part) for part in (kind, error) if part)
    return ": ".join([status, *because])


def _env_steps(summary: dict[str, Any]) -> str:
    steps = summary.get("total_env_steps")
    return (
        "" if steps is None else f", {_number(steps)} environment step{'' if steps == 1 else 's'}"
    )


def _number(value: Any) -> str:
    # The training's own summary may say anything.
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _short(path: Path) -> str:
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
