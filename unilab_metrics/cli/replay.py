"""``replay``: look at a run that is over as if it went on."""

from __future__ import annotations

import os
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.finite import FiniteRange
from unilab_metrics.cli.looking import is_screen, look_options, sidecar_options
from unilab_metrics.storage.standard_streams import fill_standard_streams
from unilab_metrics.subscribe.pace import MAX_SPEED, MIN_SPEED

_EPILOG = """\b
Examples
  unilab-metrics replay logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics replay RUN_DIR --speed 100
  unilab-metrics replay RUN_DIR --from 20000 --speed 0.5
  unilab-metrics replay RUN_DIR --speed 1000 --plain

\b
Keys
  [ ]        slower, faster
  space      stand still, go on; the arrows go through the run meanwhile
  q          close

\b
Exit codes
  0  closed with q, Ctrl+C or Ctrl+\\, or the end of the run was played
  1  unexpected, or lines of text cannot be written
  3  no run in RUN_DIR, or nothing of its history has been written yet
  4  the run was cut off before anything of its history was written; with --plain, --lines, --json
     and --once also if it was cut off later
  6  nothing of the run's history can be read, or it is of a version that this program does not
     know
  128+n  a signal n ended it: 143 for SIGTERM, 129 for SIGHUP, 131 for SIGQUIT
"""


@click.command(epilog=_EPILOG)
@click.argument("run", metavar="RUN_DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--speed",
    type=FiniteRange(MIN_SPEED, MAX_SPEED),
    default=1.0,
    show_default=True,
    metavar="X",
    help="How many times as fast as it went.",
)
@click.option(
    "--from",
    "iteration",
    type=click.IntRange(0),
    metavar="ITERATION",
    help="Begin where the run had come to it.",
)
@look_options
def replay(run: Path, *, speed: float, iteration: int | None, **look: object) -> None:
    """Play the run in RUN_DIR again, from what it has written, in the screens of a live one.

    It only reads. What lies between two attempts is not waited for; a run that is faster than it
    can be read goes as fast as that. At its end the last picture stays.
    """
    from unilab_metrics.run.launching.guard import become
    from unilab_metrics.run.launching.view import sidecar_command
    from unilab_metrics.run.processes import python_environment
    from unilab_metrics.subscribe.segment_chain import has_entries
    from unilab_metrics.transport.rendezvous import bus_directory

    found = existing_run(run)
    if not has_entries(bus_directory(found)):
        # What is wrong with the files is said before the screen is taken; as a rule nothing is,
        # and the screen need not wait for what reads them twice.
        from unilab_metrics.subscribe.replay import Replay

        Replay(found, iteration=iteration).close()
    options = ["--replay", f"{speed:g}", *sidecar_options(look)]
    if iteration is not None:
        options += ["--from", str(iteration)]
    command = sidecar_command(found.absolute(), *options)
    fill_standard_streams()
    become(command, python_environment(os.environ), is_screen=is_screen(look))
