"""``recover``: complete a run that was cut off."""

from __future__ import annotations

import json
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.finite import FiniteRange
from unilab_metrics.cli.output import say, say_json
from unilab_metrics.errors import ExitCode

_EPILOG = """\b
Examples
  unilab-metrics recover logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics recover RUN_DIR --wait 30       after a kill: its processes may take a moment
  unilab-metrics recover RUN_DIR --json | jq .backends
  unilab-metrics recover RUN_DIR --spool copied/0123456789abcdef0123    from another node

\b
Exit codes
  0  the run is complete, or was complete before
  1  not everything could be done (the disk is full, a backend refuses, a spool that is not
     this run's); what could be done is done, run it again
  3  no run in RUN_DIR
  5  refused: the run has a live aggregator, another recover is at work on it, or processes of
     it live on this node (their pids are named), or its bus directory is open to others
  6  a journal that cannot be continued: damaged, or of a version that this program does not know
"""


@click.command(epilog=_EPILOG)
@click.argument("run_dir", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--spool",
    "spools",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="Another directory in which processes of the run have left their spools, or a copy of "
    "one from a node that does not see RUN_DIR; may be repeated. Emptied like the others.",
)
@click.option(
    "--wait",
    "wait_s",
    type=FiniteRange(0.0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for processes of the run, or another recover, to end.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(0.0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a full disk is tried.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def recover(
    run_dir: Path, spools: tuple[Path, ...], wait_s: float, timeout_s: float, *, as_json: bool
) -> int:
    """Complete the run in RUN_DIR after its training and its aggregator died together.

    Needs no live process. Takes in what the dead processes of this node left in their spools,
    seals the open iterations, ends the run if nobody has, brings every backend and
    run_summary.json up to date, and removes what is safely in the journal. A second time
    there is nothing to do. Frames on other nodes stay there: run it there too, before; of a
    node that does not see RUN_DIR, copy the launch's spools here and name them with --spool.
    """
    from unilab_metrics.aggregate.process_log import said_on_stderr
    from unilab_metrics.run.completing.recovering import recover_run
    from unilab_metrics.run.completing.recovery_report import recovery_fields, recovery_lines

    run_dir = existing_run(run_dir).absolute()
    named = [_spools(path.resolve()) for path in spools]
    with said_on_stderr():
        recovery = recover_run(run_dir, spools=named, wait_s=wait_s, timeout_s=timeout_s)
    if as_json:
        say_json(json.dumps(recovery_fields(recovery), indent=2))
    else:
        for line in recovery_lines(recovery):
            say(line)
    return ExitCode.OK if recovery.is_complete else ExitCode.UNEXPECTED


def _spools(path: Path) -> Path:
    """The directory, which must hold spools as a launch's does."""
    from unilab_metrics.storage.segments import list_segments
    from unilab_metrics.storage.spool_places import spools_in
    from unilab_metrics.storage.spool_reader import SPOOL_PREFIX

    if list_segments(path, SPOOL_PREFIX):
        fault = "is a single spool; name the directory that it lies in"
    elif not any(list_segments(spool, SPOOL_PREFIX) for spool in spools_in([path])):
        fault = "holds no spool; name the directory of the launch, which holds one per process"
    else:
        return path
    raise click.BadParameter(f"{path} {fault}", param_hint="'--spool'")
