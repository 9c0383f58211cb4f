"""The launcher that owns the terminal: starts a training, shows it, and cleans up after it.

Nothing here touches the training but three things: it starts the ranks, it passes a request
to stop on to them, and it ends the rest when one of them has failed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from unilab_metrics.config import CONSOLE_FILE
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.launching.bus_end import await_bus, summary_stamp
from unilab_metrics.run.launching.kept_keys import kept_keys
from unilab_metrics.run.launching.rank_ends import RankEnds
from unilab_metrics.run.launching.report import ending, report_lines, whole_or_short
from unilab_metrics.run.launching.requests import Requests
from unilab_metrics.run.launching.show import Kind, Show, kind_for
from unilab_metrics.run.launching.terminal import TerminalState
from unilab_metrics.run.output.capture import Capture
from unilab_metrics.run.output.console_file import check_console
from unilab_metrics.run.output.live_output import LiveOutput
from unilab_metrics.transport import registry

Processes = Sequence[subprocess.Popen[bytes]]
StartTraining = Callable[[BinaryIO], Processes]

_STOP_GRACE_S = 8.0
_PEERS_GRACE_S = 10.0
_FAILURE_LINES = 20


def run_owning_terminal(
    start_training: StartTraining, run_dir: Path, *, headless: bool = False
) -> int:
    """Run a training from its start to its report; the exit code for the shell.

    ``start_training`` gets the ranks' output and errors, which come into ``console.log``, and
    returns the rank processes, each started with ``start_new_session=True``. They get SIGTERM to
    stop and SIGKILL 8 s later; Ctrl+Z, where no sidecar has the keyboard, pauses them.
    ``run_dir`` exists; the ranks know it. ``headless`` never takes the terminal. Blocks the
    calling (main) thread until the training and its aggregator are gone. Raises ``StorageError``
    for a ``console.log`` that can never be written.

    0 when every rank ended with 0; 130 after Ctrl+C; 128 + n when a signal n ended us or the
    first rank that failed; else that rank's exit code.
    """
    check_console(run_dir)
    with contextlib.ExitStack() as stack:
        terminal = None if headless else stack.enter_context(kept_keys(os.environ))
        capture = stack.enter_context(Capture(run_dir))
        return _Launch(run_dir, capture, terminal, headless=headless).run(start_training)


class _Launch:
    def __init__(
        self, run_dir: Path, capture: Capture, terminal: TerminalState | None, *, headless: bool
    ) -> None:
        self._run_dir = run_dir
        self._capture = capture
        kind = Kind.LINES if headless else kind_for("auto", os.environ)
        self._output = LiveOutput(capture.tee)
        self._show = Show(
            kind, self._output, shows_output=False, may_be_kept=True, terminal=terminal
        )
        self._requests = Requests()
        self._stopped_by: int | None = None
        self._failed: int | None = None
        self._earlier_summary = summary_stamp(run_dir)
        self._ends = RankEnds(run_dir)

    def run(self, start_training: StartTraining) -> int:
        # Long before the ranks have loaded what they need and open the run.
        registry.register(self._run_dir, os.getpid())
        with self._requests.taken():
            processes = start_training(self._capture.sink)
            try:
                self._show.begin(self._run_dir, self._earlier_summary)
                self._attend(processes)
                # The requests that ended the ranks are none to leave their metrics behind.
                self._requests.numbers.clear()
                await_bus(
                    self._run_dir,
                    self._earlier_summary,
                    tick=lambda: self._tick(()),
                    is_impatient=lambda: bool(self._requests.numbers),
                )
            finally:
                self._end(processes, lambda: False)
                self._capture.let_end()
                self._show.end_run(
                    is_hurried=bool(self._requests.numbers),
                    is_watched=self._stopped_by is None,
                    is_impatient=lambda: bool(self._requests.numbers),
                )
                self._show.end()
        self._show.say(*whole_or_short(lambda whole: self._last_words(processes, whole=whole)))
        return self._exit_code(processes)

    def _attend(self, processes: Processes) -> None:
        failed_s: float | None = None
        while self._some_run(processes):
            if self._stop_requested():
                self._end(processes, lambda: bool(self._requests.numbers))
                return
            if failed_s is None and self._failed is not None:
                failed_s = time.monotonic()
            if failed_s is not None and time.monotonic() - failed_s > _PEERS_GRACE_S:
                self._end(processes, lambda: bool(self._requests.numbers))
                return
            self._tick(processes)

    def _some_run(self, processes: Processes) -> bool:
        """Whether a rank still runs; remembers the one that failed first, whom the others
        follow within seconds."""
        statuses = [self._ends.poll(process) for process in processes]
        if self._failed is None:
            # Of those that failed within one tick, a killed one has not followed another.
            failed = [rank for rank, status in enumerate(statuses) if status]
            failed.sort(key=lambda rank: (statuses[rank] or 0) > 0)
            self._failed = next(iter(failed), None)
        return any(status is None for status in statuses)

    def _end(self, processes: Processes, is_impatient: Callable[[], bool]) -> None:
        """SIGTERM, then SIGKILL after the grace or at once when impatient; then all are gone."""
        alive = [process for process in processes if self._ends.poll(process) is None]
        for process in alive:
            process.terminate()
        deadline_s = time.monotonic() + _STOP_GRACE_S
        while any(self._ends.poll(process) is None for process in alive):
            if time.monotonic() > deadline_s or is_impatient():
                break
            self._tick(alive)
        for process in alive:
            if self._ends.poll(process) is None:
                _kill_group(process)
            self._ends.wait(process)

    def _tick(self, processes: Processes) -> None:
        self._capture.tend()
        self._show.tick()
        if self._requests.is_to_pause:
            self._show.pause(processes)
            self._requests.is_to_pause = False

    def _stop_requested(self) -> bool:
        while self._requests.numbers:
            number = self._requests.numbers.pop(0)
            # Before the sidecar has the keyboard, Ctrl+C is meant for it all the same.
            if number == signal.SIGINT and self._show.interrupt_view():
                continue
            self._stopped_by = number
            if number == signal.SIGINT:
                self._show.say("stopping the training; Ctrl+C again kills it")
            return True
        return False

    def _last_words(self, processes: Processes, *, whole: bool) -> list[str]:
        lines = report_lines(
            self._run_dir,
            stopped_by=self._stopped_by,
            with_backends=whole,
            earlier_summary=self._earlier_summary,
        )
        if self._failed is not None and self._stopped_by is None:
            how = ending(processes[self._failed].returncode)
            lines += ["", f"Rank {self._failed} {how}. The last lines of {CONSOLE_FILE}:"]
            lines += [line for line in self._output.last_lines(_FAILURE_LINES) if line]
        return lines

    def _exit_code(self, processes: Processes) -> int:
        if self._stopped_by == signal.SIGINT:
            return ExitCode.INTERRUPTED
        if self._stopped_by is not None:
            return 128 + self._stopped_by
        if self._failed is None:
            return ExitCode.OK
        status = processes[self._failed].returncode
        return 128 - status if status < 0 else status


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """The whole group of a rank that leads one: its collectors too."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
