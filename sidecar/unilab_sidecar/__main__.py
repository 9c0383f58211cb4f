"""``python -m unilab_sidecar RUN_DIR``: the screen on a terminal, lines of text elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from unilab_metrics.errors import ExitCode, RunNotFoundError
from unilab_sidecar.feed import Feed, UpdateSource
from unilab_sidecar.losses import dropped_of_summary
from unilab_sidecar.plain import run_plain

if TYPE_CHECKING:
    from unilab_sidecar.batch import Failure

_EXAMPLES = """\
examples:
  python -m unilab_sidecar logs/sac/reach/2026-03-09_18-30-00_numpy
  python -m unilab_sidecar RUN_DIR --plain | tee progress.txt
  python -m unilab_sidecar RUN_DIR --once
  python -m unilab_sidecar tcp://10.0.0.5:7400 --key watch.key

exit codes: 0 closed or run ended, 1 unexpected, 2 usage, 3 run not found,
4 no live run or no answer, 5 key refused, 6 damaged or unknown version
"""


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
        from unilab_metrics.subscribe.subscriber import Subscriber

        if address:
            return Subscriber.attach_remote(address, Path(options.key))
        return Subscriber.attach(run_dir)

    launcher = os.getppid()
    feed = Feed(
        attach,
        wait_for_bus=launched,
        is_wanted=lambda: not launched or os.getppid() == launcher,
        read_dropped=lambda attempt: None if address else dropped_of_summary(run_dir, attempt),
    )
    if options.plain or options.once or not can_show_screen(os.environ, launched=launched):
        failure = _run_plain(feed, once=bool(options.once))
    else:
        failure, return_code = _run_screen(feed, exit_with_run=bool(options.exit_with_run))
        if failure is None:
            return return_code
    return ExitCode.OK if failure is None else _give_up(failure.text, failure.exit_code)


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


def _run_screen(feed: Feed, *, exit_with_run: bool) -> tuple[Failure | None, int]:
    # Textual takes a while to import, and plain lines do not need it.
    from unilab_sidecar.app import SidecarApp

    app = SidecarApp(feed, exit_with_run=exit_with_run)
    # X10 mouse reports past column 95 are no valid UTF-8 and would end the input thread.
    failure = app.run(mouse=False)
    return failure, app.return_code or 0


def _run_plain(feed: Feed, *, once: bool) -> Failure | None:
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    thread = threading.Thread(target=feed.run, name="sidecar-feed", daemon=True)
    thread.start()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        return run_plain(feed, _write_line, once=once, stopped=stopped.is_set)
    except BrokenPipeError:
        # The reader has had enough; what is still buffered must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return None
    finally:
        feed.stop()
        thread.join(timeout=2.0)


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _write_error(text: str) -> None:
    sys.stderr.write(text + "\n")


def _give_up(text: str, exit_code: int) -> int:
    _write_error(f"unilab-sidecar: {text}")
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
    parser.add_argument("--plain", action="store_true", help="lines of text, no escape codes")
    parser.add_argument("--once", action="store_true", help="print one line and end")
    parser.add_argument(
        "--exit-with-run", action="store_true", help="close a few seconds after the run's end"
    )
    parser.add_argument(
        "--launched", action="store_true", help="a launcher owns the terminal; wait for its run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
