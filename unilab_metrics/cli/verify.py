"""``verify``: prove that a run lost and changed nothing."""

from __future__ import annotations

from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run

_EPILOG = """\b
Examples
  unilab-metrics verify logs/sac/cart_reach/2026-03-09_18-30-00_numpy

\b
Exit codes
  0  the backend equals the history
  3  no run in RUN_DIR
  6  a damaged history, or one of a version that this program does not know
  7  something is missing, doubled or changed; the first difference is named
"""


@click.command(epilog=_EPILOG)
@click.argument("run_dir", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--log-interval",
    type=click.IntRange(1),
    metavar="N",
    help="The backends hold every N-th iteration; as the run was started by default.",
)
def verify(run_dir: Path, log_interval: int | None) -> None:
    """Compare the history of RUN_DIR with its TensorBoard files, point by point.

    Counts per tag, values to float32, steps that never fall, gaps and drops. A live run is
    compared as far as its backend is.
    """
    from unilab_metrics.run.bus_settings import read_settings
    from unilab_metrics.run.verify import report, verify_run

    run_dir = existing_run(run_dir)
    interval = log_interval or read_settings(run_dir).log_interval
    for line in report(verify_run(run_dir, log_interval=interval)):
        click.echo(line)
