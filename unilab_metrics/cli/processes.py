"""``aggregate`` and ``write``: the commands that a run starts for itself.

A user needs them to finish by hand what was cut off.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.output import say
from unilab_metrics.config import ALERT_WEBHOOK_VARIABLE
from unilab_metrics.errors import LeaseHeldError
from unilab_metrics.outcome import COMPLETED
from unilab_metrics.transport.rendezvous import bus_directory

if TYPE_CHECKING:
    from unilab_metrics.run.bus_settings import BusSettings
    from unilab_metrics.run.completing.lease_holder import Holder

_RUN_DIR = click.Path(file_okay=False, path_type=Path)
_LAST_RANK_S = 1.0
"""How long rank 0 may take from its last word to the end of its process."""
_AGGREGATE_EPILOG = """\b
Examples
  unilab-metrics aggregate logs/sac/cart_reach/2026-03-09_18-30-00_numpy

\b
Exit codes
  0  every source has ended and every backend has the last update
  1  ended by SIGTERM while sources live, or the disk stays full; frames wait in the spools
  3  no run in RUN_DIR
  5  the run has a live aggregator, or is being recovered
  6  a journal that cannot be continued
"""
_WRITE_EPILOG = """\b
Examples
  unilab-metrics write logs/sac/cart_reach/2026-03-09_18-30-00_numpy --backend tensorboard

\b
Exit codes
  0  the backend has the last update
  1  a file that may not be read, or a backend that refuses
  3  no run in RUN_DIR
  5  another writer of this backend is at work
  6  a history of a version that this program does not know
"""


class WriterAtWorkError(LeaseHeldError):
    """Another process does already what ``write`` was asked for."""

    def __str__(self) -> str:
        owner = f" (pid {self.pid})" if self.pid else ""
        return f"a writer is already at work{owner}; nothing to do"


class RunInHandError(LeaseHeldError):
    """Somebody is the run's aggregator already, or recovers it."""

    def __init__(self, path: Path, holder: Holder | None, pid: int | None) -> None:
        super().__init__(path, pid)
        self._holder = holder

    def __str__(self) -> str:
        if self._holder is None:
            return f"the run was in the hands of pid {self.pid}; try again"
        wait = "; let it end" if self._holder.is_recovery else ""
        return f"the run has {self._holder} already{wait}"


@click.command(epilog=_AGGREGATE_EPILOG)
@click.argument("run_dir", type=_RUN_DIR)
@click.option(
    "--spool",
    "spools",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Directory in which the run's processes have their spools, or a copy of one from another "
    "node; may be repeated.",
)
@click.option("--backend", "backends", multiple=True, help="What to write into; may be repeated.")
@click.option(
    "--log-interval",
    type=click.IntRange(1),
    metavar="N",
    help="Backends get every N-th iteration, and the last; as the run was started by default.",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    help="Listen for other nodes on tcp://HOST[:PORT], tcp://*, auto, or none of them; as the "
    "run was started by default.",
)
@click.option(
    "--alert",
    "alerts",
    multiple=True,
    metavar="RULE",
    help="Raise an alert by a rule such as 'Loss/* > 100 for 30 s'; may be repeated; as the run was "
    "started by default. UNILAB_METRICS_ALERT_WEBHOOK is the URL that gets alerts.",
)
def aggregate(
    run_dir: Path,
    spools: tuple[Path, ...],
    backends: tuple[str, ...],
    log_interval: int | None,
    bind: str | None,
    alerts: tuple[str, ...],
) -> int:
    """Be the aggregator of the run in RUN_DIR: receive, reduce, journal, announce.

    What is not said is taken from how the run was started. Ends with the run; SIGTERM lets it
    end when the sources have, at the latest after its drain time.
    """
    from unilab_metrics.aggregate.aggregator import run_aggregator
    from unilab_metrics.aggregate.options import BackendProcess, Options
    from unilab_metrics.aggregate.process_log import say
    from unilab_metrics.node.this_node import sample_this_node
    from unilab_metrics.run.bus_settings import clear_launch
    from unilab_metrics.run.completing.lease_holder import holder_of
    from unilab_metrics.run.meeting.launch_file import sweep_launches
    from unilab_metrics.run.processes import last_log_line, start_writer, writer_log
    from unilab_metrics.run.summary import read_summary, write_summary
    from unilab_metrics.run.supervision import WRITER_HUNG_AFTER_S, Supervisor
    from unilab_metrics.storage.lease import is_free, owner_pid
    from unilab_metrics.storage.places import spool_candidates
    from unilab_metrics.storage.removed_runs import sweep_removed_runs

    run_dir = existing_run(run_dir).absolute()
    settings = _settings(run_dir)

    def writer(name: str) -> BackendProcess:
        lease = bus_directory(run_dir) / f"writer-{name}.lease"
        return Supervisor(
            partial(start_writer, run_dir, name, log_interval or settings.log_interval),
            is_taken=lambda: not is_free(lease),
            last_words=lambda: last_log_line(run_dir, writer_log(name)),
            holder=lambda: owner_pid(lease),
            hung_after_s=WRITER_HUNG_AFTER_S,
        )

    sampler = sample_this_node(os.environ)
    options = Options(
        spool_directories=[Path(spool).absolute() for spool in spools or settings.spools],
        launch=settings.launch,
        bind=_checked_bind(bind, settings.bind),
        alerts=_checked_alerts(alerts) or settings.alerts,
        alert_webhook=os.environ.get(ALERT_WEBHOOK_VARIABLE, ""),
        job_address=os.environ.get("MASTER_ADDR", ""),
        node=sampler.newest,
        backends={name: writer(name) for name in backends or settings.backends},
    )
    for swept in sweep_removed_runs(spool_candidates()):
        say(str(swept))
    try:
        status = run_aggregator(run_dir, options, write_summary=write_summary)
    except LeaseHeldError as error:
        raise RunInHandError(error.path, holder_of(run_dir), error.pid) from None
    finally:
        sampler.close()
    if (read_summary(run_dir) or {}).get("status") == COMPLETED:
        clear_launch(options.launch, run_dir, options.spool_directories)
    sweep_launches(options.launch, _LAST_RANK_S)
    return status


def _settings(run_dir: Path) -> BusSettings:
    """As the run was started, with a word on standard error if that cannot be read."""
    from unilab_metrics.run.bus_settings import SETTINGS_FILE, has_settings, read_settings
    from unilab_metrics.run.bus_settings import settings_fault as fault_of

    fault = fault_of(run_dir)
    if fault and has_settings(run_dir):
        path = bus_directory(run_dir) / SETTINGS_FILE
        say(f"unilab-metrics: {path}: {fault}; what is not said is as by default", err=True)
    return read_settings(run_dir)


def _checked_alerts(rules: tuple[str, ...]) -> tuple[str, ...]:
    from unilab_schema.alert_rules import parse_alert_rules

    try:
        return tuple(rule.text for rule in parse_alert_rules(rules))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _checked_bind(asked: str | None, started_with: str) -> str:
    from unilab_metrics.run.meeting.binding import resolve_bind

    try:
        return started_with if asked is None else resolve_bind(asked, {})
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(epilog=_WRITE_EPILOG)
@click.argument("run_dir", type=_RUN_DIR)
@click.option("--backend", default="tensorboard", show_default=True, help="What to write into.")
@click.option(
    "--log-interval",
    type=click.IntRange(1),
    metavar="N",
    help="Write every N-th iteration, and the last; as the run was started by default.",
)
def write(run_dir: Path, backend: str, log_interval: int | None) -> int:
    """Be the writer of one backend of the run in RUN_DIR.

    Follows a live run to its end; of an ended one it completes what was cut off. Goes on
    where the backend is: nothing is written twice.
    """
    from unilab_metrics.write.process import BACKENDS, write_run

    if backend not in BACKENDS:
        raise click.BadParameter(f"no backend {backend!r}; there are: {', '.join(BACKENDS)}")
    run_dir = existing_run(run_dir).absolute()
    interval = log_interval or _settings(run_dir).log_interval
    try:
        return write_run(run_dir, backend, log_interval=interval)
    except LeaseHeldError as error:
        raise WriterAtWorkError(error.path, error.pid) from None
