"""``attach`` and ``ls``: find runs and look at them."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.errors import NoLiveRunError
from unilab_metrics.transport.rendezvous import CONNECTION_FILE, bus_directory

_RUN_DIR = click.Path(file_okay=False, path_type=Path)
_LAYOUT_DEPTH = "*/*/*"
_START_S = 5.0
"""How long ``attach`` waits for a run that has been opened and has no aggregator yet."""
_POLL_S = 0.05
_ATTACH_EPILOG = """\b
Examples
  unilab-metrics attach
  unilab-metrics attach logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics attach --plain

\b
Exit codes
  those of the sidecar, and
  3  no run in RUN_DIR
  4  no live run on this machine
"""
_LS_EPILOG = """\b
Examples
  unilab-metrics ls
  unilab-metrics ls --logs /data/logs -n 50

\b
Exit codes
  0  also when there is nothing to list
"""


@click.command(epilog=_ATTACH_EPILOG)
@click.argument("run_dir", type=_RUN_DIR, required=False)
@click.option("--plain", is_flag=True, help="One line every few seconds instead of a screen.")
def attach(run_dir: Path | None, *, plain: bool) -> None:
    """Open a sidecar on RUN_DIR, or on the newest live run of this machine, also one that is
    just starting.

    It only reads: closing it, with q or Ctrl+C, never touches the training.
    """
    from unilab_metrics.run.processes import python_environment
    from unilab_metrics.run.view import sidecar_command

    found = _newest_live_run() if run_dir is None else existing_run(run_dir)
    command = sidecar_command(found.absolute(), *(["--plain"] if plain else []))
    # Replaced, not imported: the command line stays free of the terminal library, and the
    # sidecar is the very process that the shell and the terminal know.
    os.execve(command[0], command, python_environment(os.environ))  # noqa: S606


@click.command(epilog=_LS_EPILOG)
@click.option(
    "--logs",
    "log_root",
    type=_RUN_DIR,
    default=Path("logs"),
    show_default=True,
    help="Where recent runs are looked for.",
)
@click.option(
    "-n",
    "count",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="COUNT",
    help="How many recent runs that are not live to list.",
)
def ls(log_root: Path, count: int) -> None:
    """List the live runs of this machine and the COUNT most recent ones below --logs."""
    from unilab_metrics.transport.registry import live_runs, starting_runs

    found = {"live": live_runs(), "starting": starting_runs()}
    for state, runs in found.items():
        for run in runs:
            started = datetime.fromtimestamp(run.started_unix_ns / 1e9).astimezone()
            age = _age(time.time() - run.started_unix_ns / 1e9)
            click.echo(_line(state, f"{started:%Y-%m-%d %H:%M}", age, run.run_dir))
    shown = {run.run_dir.resolve() for runs in found.values() for run in runs}
    recent = [path for path in _recent(log_root) if path not in shown][:count]
    for path in recent:
        click.echo(_line(_status(path), _started(path), "", path))
    if not shown and not recent:
        click.echo(f"no live run, none below {_short(log_root)}/")


def _line(state: str, started: str, age: str, run_dir: Path) -> str:
    return f"{state:<10}{started}  {age:>8}  {_short(run_dir)}"


def _newest_live_run() -> Path:
    from unilab_metrics.transport.registry import newest_live_run, starting_runs

    deadline_s = time.monotonic() + _START_S
    while True:
        run, is_late = newest_live_run(), time.monotonic() > deadline_s
        if run is not None and (is_late or _listens(run.run_dir)):
            return run.run_dir
        if is_late or (run is None and not starting_runs()):
            break
        time.sleep(_POLL_S)
    raise NoLiveRunError("no live run on this machine; name the directory of one that ended")


def _listens(run_dir: Path) -> bool:
    return (bus_directory(run_dir) / CONNECTION_FILE).exists()


def _recent(log_root: Path) -> list[Path]:
    runs = [path.parent.resolve() for path in log_root.glob(f"{_LAYOUT_DEPTH}/run_config.json")]
    return sorted(runs, key=lambda path: path.name, reverse=True)


def _status(run_dir: Path) -> str:
    from unilab_metrics.run.summary import read_summary

    summary = read_summary(run_dir)
    status = summary.get("status") if summary else None
    return {"completed": "done", "failed": "failed"}.get(str(status), "ended")


def _started(run_dir: Path) -> str:
    date, _, rest = run_dir.name.partition("_")
    return f"{date} {rest[:5].replace('-', ':')}"


def _age(seconds: float) -> str:
    minutes = int(max(seconds, 0.0) // 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m"


def _short(path: Path) -> str:
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
