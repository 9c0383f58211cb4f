"""``verify``: prove that a run lost and changed nothing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.output import say, say_json
from unilab_metrics.errors import ExitCode, StorageError, VerificationError

_EPILOG = """\b
Examples
  unilab-metrics verify logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics verify RUN_DIR --json | jq .sources

\b
Exit codes
  0  everything agrees; of a live run, as far as it has come. What is missing because it was
     never journaled (a rank that did not come, calls that were dropped) is said in words
  1  a file that may not be read, or that is none
  3  no run in RUN_DIR
  6  a damaged journal, or one of a version that this program does not know; also settings or a
     summary that cannot be read: all the rest agrees then
  7  something is missing, doubled or changed, or waits in a spool for `recover`; the first
     difference is named. Also frames that were journaled and refused: all the rest agrees then
"""


@click.command(epilog=_EPILOG)
@click.argument("run_dir", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--log-interval",
    type=click.IntRange(1),
    metavar="N",
    help="The backends hold every N-th iteration; as the run was started by default.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def verify(run_dir: Path, log_interval: int | None, *, as_json: bool) -> int:
    """Compare what the processes of RUN_DIR wrote with its journal and its backends.

    Spools against the journal: every record once, what is lost named. The wal, folded once
    more, against the history: the same updates, byte for byte, from the update at which the
    wal begins, because its oldest segments are retired once a snapshot holds what they say.
    The history against the TensorBoard files, point by point: counts per tag, values to
    float32, steps that never fall. Only reads; a live run is compared as far as it has come.
    """
    from unilab_metrics.run.bus_settings import read_settings
    from unilab_metrics.run.verifying.verify import verify_run
    from unilab_metrics.run.verifying.verify_report import refused_frames, report, report_fields

    run_dir = existing_run(run_dir)
    interval = log_interval or read_settings(run_dir).log_interval
    try:
        verified = verify_run(run_dir, log_interval=interval)
    except (StorageError, VerificationError) as error:
        if not as_json:
            raise
        say_json(json.dumps({"ok": False, "problem": str(error)}, indent=2))
        return int(error.exit_code)
    if as_json:
        say_json(json.dumps(report_fields(verified), indent=2))
    else:
        for line in report(verified):
            say(line)
    if verified.unread:
        return ExitCode.DAMAGED
    return ExitCode.VERIFICATION_FAILED if refused_frames(verified) else ExitCode.OK
