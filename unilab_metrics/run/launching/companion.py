"""The process that has the terminal of a training which opens its own sidecar.

    python -m unilab_metrics.run.launching.companion RUN_DIR --parent PID --control FD --tee FD

It is in the training's process group, so that it is in front when the training is, and stops and
goes on with it; what asks the training to end does not end it. The training tells it of its end
by a byte; of a training that was killed it hears because its parent is gone. Either way the
terminal is then as before, and what was printed last is on it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from unilab_metrics.run.launching.bus_end import earlier_summary_stamp, has_new_summary
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.run.launching.show import TICK_S, Kind, Show
from unilab_metrics.run.launching.unheard_interrupts import hear_interrupts
from unilab_metrics.run.output.live_output import LiveOutput
from unilab_metrics.storage.standard_streams import lowest

_LAST_OUTPUT_S = 0.3
_SUMMARY_S = 1.0
_MOST_BYTES = 4_000_000
"""Of event files that are read for the report, half a second's worth: the training waits for it."""
_ENDS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the run until the training has ended."""
    parser = argparse.ArgumentParser(prog="companion")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--tee", type=int, required=True)
    parser.add_argument("--interval", type=float, required=True)
    options = parser.parse_args(arguments)
    for number in _ENDS:
        # Not ignored, which the sidecar would inherit.
        signal.signal(number, _go_on)
    hear_interrupts()
    earlier_summary = earlier_summary_stamp(options.run_dir)
    control = lowest(options.control)
    output = LiveOutput(lowest(options.tee))
    show = Show(Kind.SCREEN, output, interval_s=options.interval)
    try:
        show.begin(options.run_dir, earlier_summary)
        while os.getppid() == options.parent and not _is_told(control):
            show.tick()
        output.drain(_LAST_OUTPUT_S)
    finally:
        show.end_run(is_hurried=True)
    show.end()
    _await_summary(options.run_dir, earlier_summary)
    lines = report_lines(options.run_dir, most_bytes=_MOST_BYTES, earlier_summary=earlier_summary)
    show.say(*lines)
    return 0


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Whatever ends the training, the terminal is put in order after it."""


def _is_told(control: int) -> bool:
    return bool(select.select([control], [], [], 0)[0])


def _await_summary(run_dir: Path, earlier_summary: int) -> None:
    deadline_s = time.monotonic() + _SUMMARY_S
    while not has_new_summary(run_dir, earlier_summary) and time.monotonic() < deadline_s:
        with contextlib.suppress(InterruptedError):
            time.sleep(TICK_S)


if __name__ == "__main__":
    sys.exit(main())
