"""``attach`` and ``ls``: find runs and look at them."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.looking import is_screen, look_options, sidecar_options
from unilab_metrics.cli.output import say
from unilab_metrics.errors import (
    MissingPackageError,
    NoLiveRunError,
    RunNotFoundError,
    UnilabMetricsError,
)
from unilab_metrics.storage.standard_streams import fill_standard_streams
from unilab_metrics.transport.rendezvous import CONNECTION_FILE, bus_directory

_RUN_DIR = click.Path(file_okay=False, path_type=Path)
_START_S = 5.0
"""How long ``attach`` waits for a run that has been opened and has no aggregator yet."""
_POLL_S = 0.05
_WAIT_POLL_S = 0.5
_SUMMED = frozenset({"done", "failed", "stopped", "ended"})
"""What a summary is about; one that is at work or cut off may have that of an earlier attempt."""
_ATTACH_EPILOG = """\b
Examples
  unilab-metrics attach
  unilab-metrics attach logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics attach --lines
  unilab-metrics attach --plain --filter loss
  unilab-metrics attach --once --json
  unilab-metrics attach RUN_DIR --once
  unilab-metrics attach cluster:
  unilab-metrics attach me@cluster:logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics attach ssh://me@10.0.0.5:2222/data/logs/RUN --lines
  unilab-metrics attach tcp://10.0.0.5:7400 --key watch.key

\b
Over ssh HOST is anything that `ssh HOST` takes, also an alias of ~/.ssh/config; a path without a
leading slash begins at the home directory there, and none means the newest live run. Passwords
and codes are asked once, before the screen. $UNILAB_METRICS_SSH names another ssh or more
options, as in UNILAB_METRICS_SSH="ssh -F my_config". The other machine needs `sh` and `cat`, and
`ls`, `find`, `head` and `date` to tell how a run that nobody is at work on was left.

\b
The address of a run with TCP is tcp_announce in its bus/bus.json; its key is bus/keys/watch.key,
copied to this machine with mode 0600.

\b
Exit codes
  0  closed with q, Ctrl+C or Ctrl+\\, the run has ended (which --wait stays after), nobody reads
     the lines any more, or nothing matches --filter (which the error output says)
  1  unexpected, no ssh here, or lines of text cannot be written
  2  --filter without --plain or --json, or no regular expression; an address without --key, or --key without an address;
     no HOST:RUN_DIR; options that ssh does not take
  3  no run in RUN_DIR, also on the other machine; with --wait only if none can begin there
  4  no live run on this machine, nobody answers at the address, or with lines of text: the run
     was cut off; over ssh: no such host, no connection, or nobody at work on the run there
  5  the key is missing, not private, not for watching, or not taken by the run; with lines
     of text also when it was taken out meanwhile, unless --wait is given; over ssh: not let in,
     host key unknown or changed, no unix sockets forwarded
  6  the key file or the connection file is damaged; of a run that was cut off, also on the other
     machine: nothing of its history can be read; of one that says nothing: its settings are damaged
  128+n  a signal n ended it: 143 for SIGTERM, 129 for SIGHUP, 131 for SIGQUIT, and 130 for Ctrl+C
     before there is anything to close: while ssh connects, or --wait waits for a run to begin
"""
_LS_EPILOG = """\b
Examples
  unilab-metrics ls
  unilab-metrics ls --logs /data/logs -n 50

\b
Exit codes
  0  also when there is nothing to list
"""


ADDRESS_WITHOUT_KEY = (
    "an address needs --key FILE, a copy of the run's bus/keys/watch.key with mode 0600"
)
_LIKE_ADDRESS = re.compile(r"[^/\s]+:\d{1,5}")
KEY_WITHOUT_ADDRESS = "--key goes with an address, tcp://HOST:PORT"


@click.command(epilog=_ATTACH_EPILOG)
@click.argument("run", metavar="[RUN_DIR | HOST:RUN_DIR | tcp://HOST:PORT]", required=False)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The run's key for watching; needed for an address.",
)
@look_options
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let K stop the training, after a question, if it runs on this node.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait for a run to begin if there is none (in RUN_DIR, or on this machine); stay for the next "
    "attempt of one that has ended or was cut off, and until a key that was taken out is back.",
)
def attach(run: str | None, *, key: Path | None, wait: bool, **look: object) -> None:
    """Open a sidecar on a run: the one in RUN_DIR, here or on another machine over ssh, the one
    that listens at an address, or the newest live one of this machine, also if it is just starting.

    It only reads: closing it, with q or Ctrl+C, never touches the training. Ctrl+Z puts it aside
    and fg brings it back, as with any program of a shell; as a background job it shows lines. Of a
    run that was cut off it says so, with what completes it; lines of text then end, as they do when
    a run has ended, unless --wait is given.
    """
    from unilab_metrics.run.launching.guard import become
    from unilab_metrics.run.launching.view import sidecar_command
    from unilab_metrics.run.processes import python_environment
    from unilab_metrics.subscribe.ssh.target import is_ssh_target, parse_target

    options = sidecar_options(look) + ["--wait"] * wait
    is_address = run is not None and run.startswith("tcp:")
    if run is not None and _LIKE_ADDRESS.fullmatch(run) and not os.path.exists(run):
        raise click.UsageError(f"{run} is no directory; an address is tcp://{run}, with --key FILE")
    is_remote = run is not None and is_ssh_target(run)
    if is_address != (key is not None):
        raise click.UsageError(ADDRESS_WITHOUT_KEY if is_address else KEY_WITHOUT_ADDRESS)
    if run is not None and key is not None:
        check_remote(run, key)
        command = sidecar_command(run, "--key", os.fspath(key.absolute()), *options)
    elif run is not None and is_remote:
        parse_target(run)
        command = sidecar_command(run, *options)
    else:
        found = await_run(run) if wait else _found(run)
        if run is None:
            # Seen again when a screen has left; programs read the standard output.
            say(f"newest live run: {_short(found)}", err=True)
        command = sidecar_command(found.absolute(), *options)
    if command[0] == sys.executable:
        _check_packages()
    fill_standard_streams()
    # Started, not imported: the command line stays free of the terminal library.
    become(command, python_environment(os.environ), is_screen=is_screen(look), asks=is_remote)


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
    """List the live runs of this machine and the COUNT most recent ones below --logs, up to four
    folders deep.

    A run that is cut off has not ended, and nobody is at work on it: `recover` completes it. Of one
    that has ended there are its iterations, duration, last reward and alerts; of a live one ask
    `attach --once`.
    """
    from unilab_metrics.run.past_runs import (
        alerts_of,
        figures_of,
        lost_of,
        past_runs,
        started,
        state_of,
    )
    from unilab_metrics.transport.registry import live_runs, starting_runs

    starting = [
        run for run in starting_runs() if run.opener_lives or state_of(run.run_dir) != "cut off"
    ]
    found = {"live": live_runs(), "starting": starting}
    for state, runs in found.items():
        for run in runs:
            since = datetime.fromtimestamp(run.started_unix_ns / 1e9).astimezone()
            age = _age(time.time() - run.started_unix_ns / 1e9)
            say(_line(state, f"{since:%Y-%m-%d %H:%M}", age, run.run_dir))
    shown = {run.run_dir.resolve() for runs in found.values() for run in runs}
    recent = [path for path in past_runs(log_root) if path not in shown][:count]
    for path in recent:
        state = state_of(path)
        told = [*figures_of(path), lost_of(path), alerts_of(path)] if state in _SUMMED else []
        words = ", ".join(one for one in told if one)
        say(_line(state, started(path), "", path) + (f"  ({words})" if words else ""))
    if not shown and not recent:
        say(f"no live run, none below {_short(log_root)}/")


def _check_packages() -> None:
    """Raises before the screen is taken if the sidecar could not start."""
    for package in ("textual", "regex"):
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError("the sidecar", package)


def check_remote(address: str, key: Path) -> None:
    """Raises before the screen is taken if the run does not let us in."""
    from unilab_metrics.storage.mounts import keeps_modes
    from unilab_metrics.subscribe.subscriber import Subscriber

    if key.exists() and not keeps_modes(key.absolute().parent):
        say(f"warning: {key} cannot be made private on its file system", err=True)
    Subscriber.attach_remote(address, key).close()


def _line(state: str, started: str, age: str, run_dir: Path) -> str:
    return f"{state:<10}{started}  {age:>8}  {_short(run_dir)}"


def _found(run: str | None) -> Path:
    return find_newest_live_run() if run is None else existing_run(Path(run))


def await_run(run: str | None) -> Path:
    """The run in ``run``, or the newest live one of this machine, as soon as there is one; says
    once what it waits for. Blocks until then, or until Ctrl+C."""
    is_said = False
    while True:
        try:
            return _found(run)
        except (NoLiveRunError, RunNotFoundError) as error:
            if run is not None and _can_never_be(Path(run)):
                raise
            if not is_said:
                where = "on this machine" if run is None else f"in {run}"
                say(f"waiting for a run {where} ({_reason(error)}); Ctrl+C ends it", err=True)
                is_said = True
        time.sleep(_WAIT_POLL_S)


def _reason(error: UnilabMetricsError) -> str:
    return error.reason if isinstance(error, RunNotFoundError) else "none is live"


def _can_never_be(path: Path) -> bool:
    """Whether something else has the place, or nobody lets us look."""
    try:
        return os.path.lexists(path) and not path.is_dir()
    except OSError:
        return True


def find_newest_live_run() -> Path:
    """The one that is open, or about to be. Raises :class:`NoLiveRunError`."""
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


def _age(seconds: float) -> str:
    minutes = int(max(seconds, 0.0) // 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m"


def _short(path: Path) -> str:
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
