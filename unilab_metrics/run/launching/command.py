"""``unilab-metrics run -- CMD``: any training in a session of its own, and its runs on the screen.

The command need not know of us: its output is taken, ``init()`` below it says which runs it
opens, and what it ends with is what we end with. A command that never opens a run is shown as if
it had been started alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from unilab_metrics.config import CONSOLE_VARIABLE, is_disabled
from unilab_metrics.run.launching.announced_runs import AnnouncedRuns, LauncherPlace
from unilab_metrics.run.launching.bus_end import await_bus, earlier_summary_stamp
from unilab_metrics.run.launching.left_behind import LeftBehind
from unilab_metrics.run.launching.rank_ends import RankEnds
from unilab_metrics.run.launching.report import ending, report_lines, whole_or_short
from unilab_metrics.run.launching.requests import Requests
from unilab_metrics.run.launching.show import Show, kind_for
from unilab_metrics.run.launching.terminal import TerminalState
from unilab_metrics.run.output.capture import Capture
from unilab_metrics.run.output.live_output import LiveOutput
from unilab_metrics.storage.standard_streams import fill_standard_streams
from unilab_metrics.wording import counted

NOT_FOUND, NOT_EXECUTABLE = 127, 126
PLAIN_INTERVAL_S = 10.0
_OUTPUT_END_S = 1.0
_MOST_REPORTS = 3
_TO_LEADER = (signal.SIGUSR1, signal.SIGUSR2)
"""For requeueing on SLURM; a shell would die of them."""
_OF_KEYS = (signal.SIGINT, signal.SIGQUIT)
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)


def run_command(
    command: Sequence[str],
    *,
    sidecar: str = "auto",
    interval_s: float = PLAIN_INTERVAL_S,
    may_stop: bool = False,
    terminal: TerminalState | None = None,
) -> int:
    """Run ``command`` to its end; its exit code, 128 + n if a signal n killed it, 127 and 126 as of
    a shell if it cannot be started.

    ``sidecar``: ``auto`` takes a terminal that may be taken once a run is opened, else a plain
    line comes per ``interval_s``; ``tmux`` opens a pane beside; ``off`` leaves everything to the
    command, its input and its output too. ``may_stop``: a screen may ask the training to stop,
    by a key of its own. ``terminal``: of :func:`kept_keys`. Ctrl+C is passed on, a second one
    kills; SIGTERM, SIGHUP and SIGQUIT are passed on to all of its group, SIGUSR1 and SIGUSR2 to
    itself. Main thread only.
    """
    fill_standard_streams()
    with LauncherPlace() as place:
        if sidecar == "off":
            return _Command(command, place, None, sidecar, interval_s, may_stop=may_stop).run()
        with Capture(place, follows_runs=True) as capture:
            return _Command(
                command,
                place,
                capture,
                sidecar,
                interval_s,
                may_stop=may_stop,
                terminal=terminal,
            ).run()


class _Command:
    def __init__(
        self,
        command: Sequence[str],
        place: Path,
        capture: Capture | None,
        sidecar: str,
        interval_s: float,
        *,
        may_stop: bool = False,
        terminal: TerminalState | None = None,
    ) -> None:
        self._command = list(command)
        self._place = place
        self._capture = capture
        self._output = LiveOutput(None if capture is None else capture.tee)
        kind = kind_for(sidecar, os.environ)
        self._show = Show(
            kind,
            self._output,
            interval_s=interval_s,
            may_stop=may_stop,
            may_be_kept=True,
            terminal=terminal,
        )
        self._announced = AnnouncedRuns(place)
        self._runs: list[Path] = []
        self._earlier_summaries: dict[Path, int] = {}
        self._ends = RankEnds()
        self._requests = Requests()
        self._is_interrupted = False
        self._is_told_to_end = False
        self._left: LeftBehind | None = None

    def run(self) -> int:
        with self._requests.taken(*_TO_LEADER):
            try:
                process = self._start()
            except OSError as error:
                errors = LiveOutput(None, output=2)
                errors.say(f"unilab-metrics: {self._command[0]}: {error.strerror}")
                return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            try:
                self._attend(process)
                self._finish()
            finally:
                if self._ends.poll(process) is None:
                    self._kill(process)
                self._ends.wait(process)
                if self._capture is not None:
                    self._capture.let_end()
                self._show.end_run(
                    is_hurried=bool(self._requests.numbers),
                    is_watched=not self._is_told_to_end,
                    is_impatient=lambda: bool(self._requests.numbers),
                )
                self._show.end()
        if self._runs:
            self._show.say(*whole_or_short(lambda whole: self._last_words(process, whole=whole)))
        elif self._is_interrupted:
            self._say_if_any([] if self._left is None else self._left.last_words(self._runs))
        elif self._capture is not None:
            LiveOutput(None, output=2).say(_without_run(os.environ))
        status = process.returncode
        return 128 - status if status < 0 else status

    def _start(self) -> subprocess.Popen[bytes]:
        environ = {**os.environ, CONSOLE_VARIABLE: os.fspath(self._place)}
        if self._capture is None:
            # As if we were not there: it may ask, and be stopped, by the terminal itself.
            return subprocess.Popen(self._command, env=environ)
        # Through a pipe Python would show its lines in blocks, and lose the last with a SIGKILL.
        environ.setdefault("PYTHONUNBUFFERED", "1")
        return subprocess.Popen(
            self._command,
            env=environ,
            # The keyboard is the sidecar's; a file or pipe is the command's.
            stdin=subprocess.DEVNULL if os.isatty(0) else None,
            stdout=self._capture.sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        if self._capture is not None:
            self._left = LeftBehind(process, f"{CONSOLE_VARIABLE}={os.fspath(self._place)}")
        while self._ends.poll(process) is None or self._some_are_waited_for():
            self._look_for_runs()
            self._pass_on(process)
            if self._left is not None and self._is_interrupted:
                self._say_if_any(self._left.complaint(self._runs))
            self._tick((process,) if self._capture is not None else ())

    def _say_if_any(self, lines: Sequence[str]) -> None:
        if lines:
            self._show.say(*lines)

    def _some_are_waited_for(self) -> bool:
        """Of those that Ctrl+C was for."""
        if self._left is None or not self._is_interrupted:
            return False
        return self._left.is_waited_for(self._runs)

    def _tick(self, processes: Sequence[subprocess.Popen[bytes]] = ()) -> None:
        if self._capture is not None:
            self._capture.tend()
        self._show.tick()
        if self._requests.is_to_pause:
            self._requests.is_to_pause = False
            self._show.pause(processes)

    def _look_for_runs(self) -> None:
        for run_dir in self._announced.poll():
            earlier_summary = earlier_summary_stamp(run_dir)
            self._earlier_summaries[run_dir] = earlier_summary
            if run_dir not in self._runs[-1:]:
                self._runs.append(run_dir)
                self._ends.learn(run_dir)
            self._show.begin(run_dir, earlier_summary)

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        while self._requests.numbers:
            number = self._requests.numbers.pop(0)
            if self._capture is None:
                # Of a terminal Ctrl+C has reached the command too.
                if number not in _OF_KEYS or not os.isatty(0):
                    process.send_signal(number)
            elif number in _TO_LEADER:
                process.send_signal(number)
            elif number != signal.SIGINT:
                self._is_told_to_end = True
                self._ask(process, number)
            elif self._show.interrupt_view():
                continue
            elif self._is_interrupted:
                self._kill(process)
            else:
                self._is_interrupted = True
                self._ask(process, number)
                self._show.say("stopping the training; Ctrl+C again kills it")

    def _ask(self, process: subprocess.Popen[bytes], number: int) -> None:
        if self._left is not None:
            self._left.asked_to_stop(self._runs)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        if self._left is not None:
            self._left.kill(self._runs)
        else:
            process.kill()

    def _finish(self) -> None:
        """The command has ended: its last output, its last run, and the run's last frames."""
        if self._capture is not None:
            self._capture.let_end()
            # What it has left in the background may hold the pipe for as long as it likes.
            self._output.drain(_OUTPUT_END_S, self._may_wait_for_reader)
        self._look_for_runs()
        # What came too late for the command does not leave its metrics behind; but whoever ends us
        # from outside looks at no screen.
        self._is_told_to_end |= any(one in _FROM_OUTSIDE for one in self._requests.numbers)
        self._requests.numbers.clear()
        if self._runs:
            last = self._runs[-1]
            await_bus(
                last,
                self._earlier_summaries[last],
                tick=self._tick,
                is_impatient=lambda: bool(self._requests.numbers),
            )

    def _may_wait_for_reader(self) -> bool:
        """Without a run nobody is kept waiting by whoever reads the command's output late."""
        return not self._runs and not self._requests.numbers

    def _last_words(self, process: subprocess.Popen[bytes], *, whole: bool) -> list[str]:
        lines: list[str] = []
        if process.returncode:
            lines.append(f"The command {ending(process.returncode)}.")
        earlier = len(self._runs) - _MOST_REPORTS
        if earlier > 0:
            lines.append(f"{counted(earlier, 'run')} before these.")
        stopped_by = signal.SIGINT if self._is_interrupted else None
        for run_dir in self._runs[-_MOST_REPORTS:]:
            lines += report_lines(
                run_dir,
                stopped_by=stopped_by,
                with_backends=whole,
                earlier_summary=self._earlier_summaries[run_dir],
            )
        return lines if self._left is None else [*lines, *self._left.last_words(self._runs)]


def _without_run(environ: Mapping[str, str]) -> str:
    """What to say of a command that has ended and never called ``init()``."""
    if is_disabled(environ):
        return "unilab-metrics: no run was opened, because UNILAB_METRICS_DISABLED is set"
    return (
        "unilab-metrics: this command opened no run on this machine while it ran, so there is "
        "nothing to show of it; a training opens one with unilab_metrics.init()"
    )
