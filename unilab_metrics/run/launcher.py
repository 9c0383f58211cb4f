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
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from unilab_metrics.config import CONSOLE_FILE, RUN_SUMMARY_FILE
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.bus_settings import has_settings
from unilab_metrics.run.console import last_lines, open_console
from unilab_metrics.run.opening import complete_run
from unilab_metrics.run.pausing import pause_with
from unilab_metrics.run.rank_ends import RankEnds
from unilab_metrics.run.report import report_lines, signal_name
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.terminal import TerminalState, can_take_terminal
from unilab_metrics.run.view import View
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport import registry
from unilab_metrics.transport.rendezvous import aggregator_lease

Processes = Sequence[subprocess.Popen[bytes]]
StartTraining = Callable[[BinaryIO], Processes]

_TICK_S = 0.1
_STOP_GRACE_S = 8.0
_PEERS_GRACE_S = 10.0
_DRAIN_S = 15.0
_RUN_END_GRACE_S = 1.0
_LINGER_S = 8.0
_FAILURE_LINES = 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_owning_terminal(
    start_training: StartTraining, run_dir: Path, *, headless: bool = False
) -> int:
    """Run a training from its start to its report; the exit code for the shell.

    ``start_training`` gets ``console.log`` for the ranks' output and errors and returns the
    rank processes, each started with ``start_new_session=True``. They get SIGTERM to stop and
    SIGKILL 8 s later; Ctrl+Z, where no sidecar has the keyboard, pauses them. ``run_dir`` exists; the ranks know it. ``headless`` never takes the
    terminal. Blocks the calling (main) thread until the training and its aggregator are gone.

    0 when every rank ended with 0; 130 after Ctrl+C; 128 + n when a signal n ended us or the
    first rank that failed; else that rank's exit code.
    """
    return _Launch(run_dir, headless=headless).run(start_training)


class _Launch:
    def __init__(self, run_dir: Path, *, headless: bool) -> None:
        self._run_dir = run_dir
        self._takes_screen = not headless and can_take_terminal(os.environ)
        self._terminal = TerminalState() if self._takes_screen else None
        self._view: View | None = None
        self._requests: list[int] = []
        self._is_to_pause = False
        self._stopped_by: int | None = None
        self._interrupted_view = False
        self._failed: int | None = None
        self._earlier_summary = _stamp(run_dir)
        self._ends = RankEnds(run_dir)

    def run(self, start_training: StartTraining) -> int:
        # Long before the ranks have loaded what they need and open the run.
        registry.register(self._run_dir, os.getpid())
        with open_console(self._run_dir) as console, self._signals():
            processes = start_training(console)
            try:
                self._view = self._first_view()
                self._attend(processes)
                self._await_bus()
            finally:
                self._end(processes, lambda: False)
                self._close_view()
        self._say(*self._last_words(processes))
        return self._exit_code(processes)

    def _attend(self, processes: Processes) -> None:
        failed_s: float | None = None
        while self._some_run(processes):
            if self._stop_requested():
                self._end(processes, lambda: bool(self._requests))
                return
            if failed_s is None and self._failed is not None:
                failed_s = time.monotonic()
            if failed_s is not None and time.monotonic() - failed_s > _PEERS_GRACE_S:
                self._end(processes, lambda: bool(self._requests))
                return
            self._look_after_view()
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
        time.sleep(_TICK_S)
        if self._is_to_pause:
            view = self._view
            shown = () if view is None or view.owns_screen else (view.process,)
            pause_with([*processes, *shown])
            self._is_to_pause = False

    def _stop_requested(self) -> bool:
        while self._requests:
            number = self._requests.pop(0)
            if number == signal.SIGINT and self._view is not None and self._view.owns_screen:
                # Before the sidecar has the keyboard, Ctrl+C is meant for it all the same.
                self._view.close(0.0)
                self._interrupted_view = True
                continue
            self._stopped_by = number
            if number == signal.SIGINT:
                self._say("stopping the training; Ctrl+C again kills it")
            return True
        return False

    def _first_view(self) -> View | None:
        with contextlib.suppress(OSError):
            return View.sidecar(self._run_dir) if self._takes_screen else self._lines()
        return None

    def _lines(self) -> View | None:
        with contextlib.suppress(OSError):
            return View.lines(self._run_dir)
        return None

    def _look_after_view(self) -> None:
        if self._view is None or self._view.exit_status is None:
            return
        was_screen, status = self._view.owns_screen, self._view.exit_status
        self._view = None
        if not was_screen:
            return
        self._restore_terminal(status)
        if self._run_ends_now():
            return
        if status:
            self._say(f"the sidecar {_ending(status)}")
        again = "again " if self._interrupted_view else ""
        self._say(f"training goes on; Ctrl+C {again}stops it")
        self._view = self._lines()

    def _run_ends_now(self) -> bool:
        """Whether the sidecar left because the run is over, which the ranks notice later."""
        deadline_s = time.monotonic() + _RUN_END_GRACE_S
        while time.monotonic() < deadline_s:
            if read_summary(self._run_dir) is not None:
                return True
            time.sleep(_TICK_S)
        return False

    def _await_bus(self) -> None:
        """The aggregator ends when every frame is in the backends, or at its own deadline.

        The requests that ended the ranks are no requests to leave their metrics behind.
        """
        self._requests.clear()
        lease = aggregator_lease(self._run_dir)
        deadline_s = time.monotonic() + _DRAIN_S
        helper, was_completed = None, False
        while time.monotonic() < deadline_s and not self._requests:
            is_over = is_free(lease)
            if is_over and not was_completed and self._is_unfinished():
                # It died with the rank that would have started it again.
                helper, was_completed = complete_run(self._run_dir), True
            elif is_over and (helper is None or helper.poll() is not None):
                return
            self._tick(())

    def _is_unfinished(self) -> bool:
        return has_settings(self._run_dir) and _stamp(self._run_dir) == self._earlier_summary

    def _close_view(self) -> None:
        if self._view is not None:
            # Without a summary there is no end of the run that it could show.
            has_ended = read_summary(self._run_dir) is not None
            self._view.close(_LINGER_S if has_ended and not self._requests else 0.0)
            if self._view.owns_screen:
                self._restore_terminal(self._view.exit_status)
            self._view = None

    def _restore_terminal(self, view_status: int | None) -> None:
        """After a screen has ended. Only what a signal killed has not cleaned up itself."""
        if self._terminal is not None:
            self._terminal.restore(modes=view_status is None or view_status < 0)

    def _last_words(self, processes: Processes) -> list[str]:
        lines = report_lines(self._run_dir, stopped_by=self._stopped_by)
        if self._failed is not None and self._stopped_by is None:
            ending = _ending(processes[self._failed].returncode)
            lines += ["", f"Rank {self._failed} {ending}. The last lines of {CONSOLE_FILE}:"]
            lines += [f"  {line}" for line in last_lines(self._run_dir, _FAILURE_LINES)]
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

    def _say(self, *lines: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody may be reading any more
            print("\n".join(lines), flush=True)  # noqa: T201 (a launcher speaks to its user)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        def remember(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGTSTP:
                self._is_to_pause = True
            else:
                self._requests.append(number)

        before = {number: signal.getsignal(number) for number in (*_SIGNALS, signal.SIGTSTP)}
        for number, handler in before.items():
            if handler != signal.SIG_IGN:  # nohup, or a shell's background job
                signal.signal(number, remember)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _stamp(run_dir: Path) -> int:
    """Changes with each summary that is written; 0 without one."""
    try:
        return (run_dir / RUN_SUMMARY_FILE).stat().st_mtime_ns
    except OSError:
        return 0


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """The whole group of a rank that leads one: its collectors too."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _ending(status: int) -> str:
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with {status}"
