"""What a launcher says when its training is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import MissingPackageError
from unilab_metrics.outcome import COMPLETED
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.transport.rendezvous import aggregator_lease
from unilab_metrics.wording import counted


def report_lines(
    run_dir: Path, *, stopped_by: int | None = None, with_backends: bool = True
) -> list[str]:
    """Where the run lies, what every backend holds and what was lost. Never raises.

    ``stopped_by``: the signal with which the launcher was asked to stop the training.
    ``with_backends``: reads their files, which takes a while for a long run.
    """
    lines = [f"Run directory  {_short(run_dir)}"]
    summary = read_summary(run_dir)
    if summary is None:
        return [*lines, f"Summary        {_no_summary(run_dir)}"]
    bus = cast("dict[str, Any]", summary.get("bus", {}))
    lines += [
        f"Status         {_status(summary, stopped_by)}",
        f"Iterations     {_number(summary.get('completed_iterations', 0))}"
        + _env_steps(summary)
        + f", {counted(bus.get('world_size', 1), 'rank')}"
        + f", {counted(len(bus.get('sources', [])), 'source')}",
    ]
    for name in bus.get("backends", {}) if with_backends else ():
        title, text = _backend(name, run_dir)
        lines.append(f"{title:<14} {text}")
    return [*lines, f"Dropped        {_dropped(bus)}"]


def _no_summary(run_dir: Path) -> str:
    try:
        pid = settled_pid(aggregator_lease(run_dir))
    except OSError:
        pid = None
    if pid is None:
        return "none: the run ended before it could be written"
    return f"not yet: the aggregator (pid {pid}) is at work and puts {RUN_SUMMARY_FILE} there"


def _backend(name: str, run_dir: Path) -> tuple[str, str]:
    title, count = _BACKENDS.get(name, (name, _written))
    return title, count(run_dir)


def _written(_: Path) -> str:
    return "written"


def _tensorboard(run_dir: Path) -> str:
    from unilab_metrics.run.verifying.event_points import points_per_tag
    from unilab_metrics.run.verifying.verify_report import span

    try:
        counts = points_per_tag(run_dir)
    except (OSError, MissingPackageError) as error:
        return f"cannot be read: {error}"
    if not counts:
        return "no points"
    points = counted(sum(counts.values()), "point")
    return f"{counted(len(counts), 'tag')}, {points}, {span(counts.values())} per tag"


_BACKENDS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "tensorboard": ("TensorBoard", _tensorboard),
}


def _dropped(bus: dict[str, Any]) -> str:
    from unilab_metrics.run.verifying.verify_report import dropped_text

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
    status = str(summary.get("status"))
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
