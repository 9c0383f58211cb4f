"""What a launcher says when its training is over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from unilab_metrics.run.summary import read_summary


def report_lines(run_dir: Path) -> list[str]:
    """Where the run lies, what every backend holds and what was lost. Never raises."""
    lines = [f"Run directory  {_short(run_dir)}"]
    summary = read_summary(run_dir)
    if summary is None:
        return [*lines, "Summary        none: the run ended before it could be written"]
    bus = cast("dict[str, Any]", summary.get("bus", {}))
    lines += [
        f"Status         {summary.get('status')}" + _because(summary),
        f"Iterations     {summary.get('completed_iterations', 0):,}"
        + _env_steps(summary)
        + f", {bus.get('world_size', 1)} ranks, {len(bus.get('sources', []))} sources",
    ]
    for name in bus.get("backends", {}):
        title, text = _backend(name, run_dir)
        lines.append(f"{title:<14} {text}")
    return [*lines, f"Dropped        {_dropped(bus)}"]


def _backend(name: str, run_dir: Path) -> tuple[str, str]:
    title, count = _BACKENDS.get(name, (name, _written))
    return title, count(run_dir)


def _written(_: Path) -> str:
    return "written"


def _tensorboard(run_dir: Path) -> str:
    from unilab_metrics.run.event_points import points_per_tag
    from unilab_metrics.run.verify import span

    try:
        counts = points_per_tag(run_dir)
    except OSError as error:
        return f"cannot be read: {error}"
    if not counts:
        return "no points"
    return f"{len(counts)} tags, {sum(counts.values()):,} points, {span(counts.values())} per tag"


_BACKENDS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "tensorboard": ("TensorBoard", _tensorboard),
}


def _dropped(bus: dict[str, Any]) -> str:
    from unilab_metrics.run.verify import dropped_text

    drops = cast("dict[str, int]", dict(bus.get("dropped_calls", {})))
    if bus.get("lost_frames"):
        drops["lost frames"] = int(bus["lost_frames"])
    if bus.get("quarantined_frames"):
        drops["quarantined frames"] = int(bus["quarantined_frames"])
    return dropped_text(drops)


def _because(summary: dict[str, Any]) -> str:
    return f": {summary['error']}" if summary.get("error") else ""


def _env_steps(summary: dict[str, Any]) -> str:
    steps = summary.get("total_env_steps")
    return "" if steps is None else f", {steps:,} environment steps"


def _short(path: Path) -> str:
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
