"""The sidecar's program: the screen on a terminal, lines of text elsewhere."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unilab_metrics.early_interrupts import raise_interrupts
from unilab_metrics.errors import (
    ConnectionFileError,
    ExitCode,
    NoLiveRunError,
    RunNotFoundError,
    UnilabMetricsError,
)
from unilab_metrics.subscribe.ssh.target import is_ssh_target
from unilab_metrics.typed_ahead import keep_keys, put_back
from unilab_sidecar.alerting.alerts import cut_off
from unilab_sidecar.command_line import command_line, usage_fault
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.feed_thread import FeedThread
from unilab_sidecar.feeding.over_ssh import reach, summary_of
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.feeding.summary_file import read_summary, told_time
from unilab_sidecar.feeding.update_source import UpdateSource
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.printed.plain import LineTeller, Teller, where
from unilab_sidecar.printed.printing import run_printed
from unilab_sidecar.screen_program import run_screen
from unilab_sidecar.terminal.error_output import say_error
from unilab_sidecar.terminal.own_terminal import can_show_screen, draws_elsewhere

if TYPE_CHECKING:
    from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
    from unilab_metrics.subscribe.ssh.shared_way import SharedWay

_DRAWS_ELSEWHERE = (
    "unilab-metrics: lines and no screen, because the error stream, on which it is drawn, leads to "
    "another place (2> FILE)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows the run; returns the exit code."""
    options = command_line().parse_args(arguments)
    if fault := usage_fault(options):
        return _give_up(fault, ExitCode.USAGE)
    address = options.run if options.run.startswith("tcp:") else ""
    is_remote = is_ssh_target(options.run)
    run_dir = Path(options.run)
    launched, guarded = bool(options.launched), options.guarded is not None
    launcher = os.getppid()

    def is_wanted() -> bool:
        return not (launched or guarded) or os.getppid() == launcher

    if not address and not is_remote and not launched and not os.path.isdir(run_dir):
        error = RunNotFoundError(run_dir, "no such directory")
        return _give_up(str(error), ExitCode.RUN_NOT_FOUND)

    try:
        over_ssh = _reached(options, is_wanted) if is_remote else None
    except UnilabMetricsError as error:
        return _give_up(str(error), error.exit_code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED

    wait, once = launched or bool(options.wait), bool(options.once)

    def attach() -> UpdateSource:
        from unilab_metrics.subscribe.replay import Replay
        from unilab_metrics.subscribe.subscriber import Subscriber

        if options.replay is not None:
            speed, at, told = options.replay, options.iteration, partial(told_time, run_dir)
            return Replay(run_dir, speed=speed, iteration=at, is_still=once, told_s=told)
        if over_ssh is not None:
            return Subscriber(over_ssh)
        if address:
            return Subscriber.attach_remote(address, Path(options.key))
        try:
            return Subscriber.attach(run_dir)
        except ConnectionFileError as error:
            gone = _abandoned(run_dir, options) if error.exit_code == ExitCode.NO_LIVE_RUN else None
            if gone is None:
                raise
            raise NoLiveRunError(f"{run_dir}: {cut_off(gone, options.run)}") from error

    def summary(attempt: int) -> Summary | None:
        if over_ssh is not None:
            return summary_of(over_ssh, attempt)
        return (
            None if address else _summary_in(run_dir, attempt, is_played=options.replay is not None)
        )

    def find_abandoned() -> tuple[str, ...] | None:
        if over_ssh is not None:
            return over_ssh.gone
        return None if address else _abandoned(run_dir, options, is_history_read=not wait)

    feed = Feed(
        attach,
        wait_for_bus=wait,
        is_wanted=is_wanted,
        read_summary=summary,
        find_outage=lambda: over_ssh.outage() if over_ssh is not None else None,
        find_abandoned=find_abandoned,
        has_begun_again=partial(_has_begun_again, options),
        tells_waiting=wait and not launched,
        sees_files=not address and over_ssh is None,
        run_dir="" if address or over_ssh else options.run,
        target=options.run,
    )
    is_printed = options.form is not None or once
    is_shown = bool(options.browser) or can_show_screen(os.environ, launched=launched)
    if is_printed or not is_shown:
        if not is_printed and draws_elsewhere(os.environ, launched=launched):
            # Nobody sees the error stream.
            print(_DRAWS_ELSEWHERE, flush=True)  # noqa: T201
        teller = _teller(options)
        failure = run_printed(
            feed,
            teller,
            once=once,
            wait=wait,
            stays=bool(options.wait) and not options.exit_with_run,
            is_past=options.replay is not None,
            first_lines=_first_lines(options),
        )
        if problem := parse_filter(options.filter).problem:
            say_error(f"unilab-metrics: --filter {options.filter} is left out: {problem}")
        elif once and failure is None and not teller.has_found:
            say_error(f"unilab-metrics: nothing matches --filter {options.filter}")
    else:
        feed.keeps_up = True
        before = _keep_keys(options) if launched or guarded else None
        thread = FeedThread(feed)
        try:
            failure, return_code = run_screen(thread, options, before)
        finally:
            thread.end()
            if before is not None:
                put_back(before)
        if guarded and not is_wanted():
            # The shell has the terminal.
            return ExitCode.UNEXPECTED
        if failure is None:
            # Of a launched one the launcher wants to know; for others it is a way to close it.
            is_closed = return_code == ExitCode.INTERRUPTED and not launched
            return ExitCode.OK if is_closed else return_code
    return ExitCode.OK if failure is None else _give_up(failure.text, failure.exit_code)


def _reached(options: argparse.Namespace, is_wanted: Callable[[], bool]) -> RunOverSsh | SharedWay:
    # A connection that is being made is to be ended too.
    raise_interrupts()
    return reach(options.run, waits=bool(options.wait), way=options.way, is_wanted=is_wanted)


def _abandoned(
    run_dir: Path, options: argparse.Namespace, *, is_history_read: bool = False
) -> tuple[str, ...] | None:
    """Who is gone. ``is_history_read``: raise ``DamagedFileError`` if nothing of the history can be
    read, which is not what a run looks like that was cut off, or if settings keep it from being told
    of a run that may be live."""
    from unilab_metrics.subscribe.abandoned import find_abandoned, look_for_abandoned
    from unilab_metrics.subscribe.unread_history import refuse_unread

    is_live = is_history_read and options.replay is None
    gone = look_for_abandoned(run_dir) if is_live else find_abandoned(run_dir)
    if gone is not None and is_history_read:
        refuse_unread(run_dir)
    return gone


def _has_begun_again(options: argparse.Namespace) -> bool:
    """Of a run elsewhere nobody sees that here; of one that is played it does not matter."""
    from unilab_metrics.subscribe.next_attempt import has_begun_again

    return options.replay is None and has_begun_again(Path(options.run))


def _summary_in(run_dir: Path, attempt: int, *, is_played: bool) -> Summary | None:
    """What the run says of itself; of one that is played again the time of its entries counts."""
    found = read_summary(run_dir, attempt)
    return found._replace(training_s=None) if found is not None and is_played else found


def _first_lines(options: argparse.Namespace) -> list[str]:
    """Who has started a training need not know where its run lies."""
    place = [where(options.run, os.getcwd())] if options.launched else []
    return [*place, *([options.first_line] if options.first_line else [])]


def _teller(options: argparse.Namespace) -> Teller:
    from unilab_sidecar.printed.json_lines import JsonTeller
    from unilab_sidecar.printed.metric_lines import MetricTeller

    interval_s, wanted = float(options.interval), str(options.filter)
    if options.form == "plain":
        return MetricTeller(interval_s, wanted)
    return JsonTeller(interval_s, wanted) if options.form == "json" else LineTeller(interval_s)


def _keep_keys(options: argparse.Namespace) -> list[Any] | None:
    """How the terminal is to be in the end: who has kept the keys for us already has told."""
    before = keep_keys()
    return before if before is None or options.terminal is None else options.terminal


def _give_up(text: str, exit_code: int) -> int:
    if text:
        say_error(f"unilab-metrics: {text}")
    return exit_code
