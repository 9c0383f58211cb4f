"""``python -m unilab_sidecar RUN_DIR``: the screen on a terminal, lines of text elsewhere."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from unilab_metrics.errors import (
    ConnectionFileError,
    ExitCode,
    NoLiveRunError,
    RunNotFoundError,
)
from unilab_sidecar.alerts import cut_off
from unilab_sidecar.batch import Failure
from unilab_sidecar.charsets import shows_unicode
from unilab_sidecar.feed import Feed, UpdateSource
from unilab_sidecar.json_lines import JsonTeller
from unilab_sidecar.metric_lines import MetricTeller
from unilab_sidecar.plain import INTERVAL_S, LineTeller, Teller
from unilab_sidecar.printing import run_printed, turn_off
from unilab_sidecar.summary_file import read_summary
from unilab_sidecar.viewing import THEMES

_EXAMPLES = """\
examples:
  python -m unilab_sidecar logs/sac/reach/2026-03-09_18-30-00_numpy
  python -m unilab_sidecar RUN_DIR --lines | tee progress.txt
  python -m unilab_sidecar RUN_DIR --once
  python -m unilab_sidecar RUN_DIR --plain --filter loss
  python -m unilab_sidecar RUN_DIR --once --json | jq .metrics
  python -m unilab_sidecar tcp://10.0.0.5:7400 --key watch.key

exit codes: 0 closed, run ended, or nobody reads the lines, 1 unexpected, or lines cannot be
written, 2 usage, 3 run not found,
4 no live run, no answer, or the run was cut off (of which a screen stays open),
5 key refused, also later on (of which a screen stays open), 6 damaged or unknown version
"""


_FORMS = {
    "lines": "a line for people every few seconds, as also without a terminal",
    "plain": "a line `name value age` per metric, sorted; then of what changes: for screen readers",
    "json": "an object per line",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows the run; returns the exit code."""
    options = _parser().parse_args(arguments)
    address = options.run if options.run.startswith("tcp:") else ""
    run_dir = Path(options.run)
    launched = bool(options.launched)
    if bool(address) != (options.key is not None):
        return _give_up("tcp://HOST:PORT and --key FILE go together", ExitCode.USAGE)
    if not address and not launched and not run_dir.is_dir():
        error = RunNotFoundError(run_dir, "no such directory")
        return _give_up(str(error), ExitCode.RUN_NOT_FOUND)

    def attach() -> UpdateSource:
        from unilab_metrics.subscribe.replay import Replay
        from unilab_metrics.subscribe.subscriber import Subscriber

        if options.replay is not None:
            played = Replay(run_dir, speed=options.replay, iteration=options.iteration)
            # The numbers of just that moment.
            played.pace(None, None, is_paused=bool(options.once))
            return played
        if address:
            return Subscriber.attach_remote(address, Path(options.key))
        try:
            return Subscriber.attach(run_dir)
        except ConnectionFileError as error:
            gone = _abandoned(run_dir) if error.exit_code == ExitCode.NO_LIVE_RUN else None
            if gone is None:
                raise
            raise NoLiveRunError(f"{run_dir}: {cut_off(gone, options.run)}") from error

    launcher = os.getppid()
    wait = launched or bool(options.wait)
    feed = Feed(
        attach,
        wait_for_bus=wait,
        is_wanted=lambda: not launched or os.getppid() == launcher,
        read_summary=lambda attempt: None if address else read_summary(run_dir, attempt),
        find_abandoned=lambda: None if address else _abandoned(run_dir),
        run_dir="" if address else options.run,
    )
    once = bool(options.once)
    is_printed = options.form is not None or once
    if is_printed or not can_show_screen(os.environ, launched=launched):
        failure = run_printed(feed, _teller(options), once=once, wait=wait)
    else:
        failure, return_code = _run_screen(feed, options)
        if failure is None:
            return return_code
    return ExitCode.OK if failure is None else _give_up(failure.text, failure.exit_code)


def _abandoned(run_dir: Path) -> tuple[str, ...] | None:
    from unilab_metrics.subscribe.abandoned import find_abandoned

    return find_abandoned(run_dir)


def can_show_screen(environ: Mapping[str, str], *, launched: bool) -> bool:
    """Whether input, output and errors are a terminal that is ours.

    Textual draws on the error stream and reads from the input; a background job that touched
    the terminal would be stopped. ``launched``: our launcher owns the terminal, which need not
    be the controlling one.
    """
    if environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    if not all(os.isatty(descriptor) for descriptor in (0, 1, 2)):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return launched


def _teller(options: argparse.Namespace) -> Teller:
    interval_s, wanted = float(options.interval), str(options.filter)
    if options.form == "plain":
        return MetricTeller(interval_s, wanted)
    return JsonTeller(interval_s, wanted) if options.form == "json" else LineTeller(interval_s)


def _run_screen(feed: Feed, options: argparse.Namespace) -> tuple[Failure | None, int]:
    # Textual takes a while to import, and plain lines do not need it.
    from unilab_sidecar.app import SidecarApp

    unicode = shows_unicode(os.environ) if options.unicode is None else bool(options.unicode)
    app = SidecarApp(
        feed,
        exit_with_run=bool(options.exit_with_run),
        unicode=unicode,
        theme=options.theme or "",
        shows_cursor=bool(options.cursor),
        environ=dict(os.environ),
        remembers=True,
    )
    # Nothing here is clicked, and text is selected and copied as in any terminal.
    failure = app.run(mouse=False)
    return failure, app.return_code or 0


def _give_up(text: str, exit_code: int) -> int:
    if text:
        try:
            sys.stderr.write(f"unilab-sidecar: {text}\n")
            sys.stderr.flush()
        except OSError:
            turn_off(sys.stderr)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m unilab_sidecar",
        description="Live view of a run. It only reads: closing it never touches the training.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run", metavar="RUN", help="directory of the run, or tcp://HOST:PORT with --key"
    )
    parser.add_argument("--key", metavar="FILE", help="the run's key for watching")
    forms = parser.add_mutually_exclusive_group()
    for form, words in _FORMS.items():
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=words)
    parser.add_argument("--once", action="store_true", help="the numbers of now, and end")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only these metrics of --plain and --json: words, !not, /regex/",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=INTERVAL_S,
        metavar="S",
        help="seconds between two of them, %(default)g by default",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for the run's start, for its next attempt, or for a key to be taken again",
    )
    parser.add_argument(
        "--replay",
        type=float,
        metavar="SPEED",
        help="play what the run has left again, so many times as fast as it went",
    )
    parser.add_argument(
        "--from",
        dest="iteration",
        type=int,
        metavar="ITERATION",
        help="where the replay begins",
    )
    parser.add_argument("--theme", choices=THEMES, help="colours of the screen")
    parser.add_argument(
        "--unicode",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="more than ASCII on the screen; by default what the locale says",
    )
    parser.add_argument(
        "--cursor", action="store_true", help="leave the terminal's cursor visible on the screen"
    )
    parser.add_argument(
        "--exit-with-run", action="store_true", help="close a few seconds after the run's end"
    )
    parser.add_argument(
        "--launched", action="store_true", help="a launcher owns the terminal; wait for its run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
