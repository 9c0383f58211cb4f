"""What the command line of a sidecar may say."""

from __future__ import annotations

import argparse
import math

from unilab_metrics.subscribe.pace import MAX_SPEED, MIN_SPEED
from unilab_metrics.typed_ahead import heard
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.looking.viewing import THEMES
from unilab_sidecar.printed.plain import INTERVAL_S

_EXAMPLES = """\
examples:
  python -m unilab_sidecar logs/sac/reach/2026-03-09_18-30-00_numpy
  python -m unilab_sidecar RUN_DIR --lines | tee progress.txt
  python -m unilab_sidecar RUN_DIR --once
  python -m unilab_sidecar RUN_DIR --plain --filter loss
  python -m unilab_sidecar RUN_DIR --once --json | jq .metrics
  python -m unilab_sidecar tcp://10.0.0.5:7400 --key watch.key
  python -m unilab_sidecar user@cluster:logs/sac/reach/2026-03-09_18-30-00_numpy

exit codes: 0 closed with q or Ctrl+C, run ended, nobody reads the lines, or (said as an error)
nothing matches --filter, 1 unexpected, or lines cannot be written, 2 usage, 3 run not found,
4 no live run, no answer, or the run was cut off (of which a screen stays open),
5 key refused, also later on (of which a screen stays open), 6 damaged or unknown version,
130 closed by Ctrl+C, with --launched
"""
_FORMS = {
    "lines": "a line for people every few seconds, as also without a terminal",
    "plain": "a line `name value age` per metric, sorted; then of what changes: for screen readers",
    "json": "an object per line",
}


def _seconds(text: str) -> float:
    return _number(text, 0.1, math.inf)


def _speed(text: str) -> float:
    return _number(text, MIN_SPEED, MAX_SPEED)


def _number(text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or not least <= number <= most:
        upper = f" to {most:g}" if math.isfinite(most) else " or more"
        raise argparse.ArgumentTypeError(f"{text!r} is no number of {least:g}{upper}")
    return number


def command_line() -> argparse.ArgumentParser:
    """What the command line may say."""
    parser = argparse.ArgumentParser(
        prog="python -m unilab_sidecar",
        description="Live view of a run. It only reads: closing it never touches the training.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help="directory of the run, HOST:DIRECTORY over ssh, or tcp://HOST:PORT with --key",
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
        type=_seconds,
        default=INTERVAL_S,
        metavar="S",
        help="seconds between two of them, %(default)g by default",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for the run's start, for its next attempt after an end of any kind, or for a key to be "
        "taken again",
    )
    parser.add_argument(
        "--replay",
        type=_speed,
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
        "--allow-control",
        action="store_true",
        help="let K stop the training, after a question, if it runs on this node",
    )
    parser.add_argument(
        "--bell", action="store_true", help="ring the terminal's bell when an alert opens"
    )
    parser.add_argument("--terminal", type=heard, help=argparse.SUPPRESS)
    parser.add_argument("--guarded", choices=("job", "none"), help=argparse.SUPPRESS)
    parser.add_argument("--first-line", default="", help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--browser", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--way", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument(
        "--launched", action="store_true", help="a launcher owns the terminal; wait for its run"
    )
    return parser


def usage_fault(options: argparse.Namespace) -> str:
    """Which of them make no sense with the others, or none at all; empty if all do."""
    if options.filter and options.form not in ("plain", "json"):
        return "--filter goes with --plain or --json"
    if problem := parse_filter(options.filter).problem:
        return f"--filter {options.filter}: {clean(problem)}"
    if options.run.startswith("tcp:") != (options.key is not None):
        return "tcp://HOST:PORT and --key FILE go together"
    return ""
