"""``init(sidecar=...)``: the view that a training opens for itself.

Nothing here is on a training's way: its output goes into a pipe that another process empties, the
terminal belongs to a companion process, and the only thread that looks after both is the one that
ships frames. What cannot be opened is not, and what dies is replaced or done without.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, final

from unilab_metrics.publish.forking import unforked
from unilab_metrics.run.launching import tmux
from unilab_metrics.run.launching.announced_runs import is_launched
from unilab_metrics.run.launching.terminal import TerminalState, can_take_terminal
from unilab_metrics.run.launching.unheard_interrupts import unheard_interrupts
from unilab_metrics.run.launching.view import View
from unilab_metrics.run.meeting.ranks import Place
from unilab_metrics.run.output.capture import Capture
from unilab_metrics.run.processes import Helper, helper_python, python_environment
from unilab_metrics.storage.standard_streams import above_standard_streams

INTERVAL_S = 10.0
"""Between two plain lines."""
SEVERAL_RANKS = (
    "lines and no screen, because several ranks share this terminal; to have one start them with: "
    "unilab-metrics run -- COMMAND"
)
_END_S = 6.0
_HURRIED_END_S = 2.0
"""Longer than it takes to say how the training ended."""
_LAST_LINE_S = 3.0
"""Also a process that takes long to start on a busy machine says how a short training ended."""
_COMPANION_GONE_S = 1.5
"""How long its sidecar may take to leave the screen when its companion was killed."""


class OwnView(Protocol):
    """What ``init()`` has opened."""

    def tend(self) -> None:
        """Called by the shipper's thread about once a second; never waits, never raises."""
        ...

    def close(self) -> None:
        """The run is over; the terminal is the training's again. Idempotent, waits a few seconds
        at most, and raises in the end what a signal handler has raised meanwhile, else nothing.
        Nothing happens in a forked child."""
        ...


def open_own_view(
    asked: str, run_dir: Path, place: Place, environ: Mapping[str, str]
) -> OwnView | None:
    """``asked``: ``auto`` or ``tmux``; ``None`` where nothing is opened: under our launcher, at a
    prompt, in a notebook or a debugger, on other ranks than the first, or if it fails. Never
    raises."""
    if place.rank != 0 or is_launched(environ) or _is_interactive():
        return None
    try:
        if asked == "tmux" and tmux.is_in_tmux(environ):
            tmux.start_pane(run_dir)
            return None
        is_only_one = "1" in {str(place.world_size), environ.get("LOCAL_WORLD_SIZE")}
        can_show = asked == "auto" and can_take_terminal(environ)
        if can_show and is_only_one:
            return _Screen(run_dir)
        return _Lines(run_dir, SEVERAL_RANKS if can_show else "")
    except (OSError, termios.error):
        return None


@final
class _Lines:
    """One plain line per interval on the training's own output, which stays as it is."""

    def __init__(self, run_dir: Path, first_line: str = "") -> None:
        self._pid = os.getpid()
        self._view: View | None = View.lines(run_dir, interval_s=INTERVAL_S, first_line=first_line)

    def tend(self) -> None:
        if self._view is not None and self._view.exit_status is not None:
            self._view = None

    def close(self) -> None:
        view, self._view = self._view, None
        if view is not None and os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                view.close(_LAST_LINE_S)


@final
class _Screen:
    """The terminal is the companion's, the training has a pipe and no input."""

    def __init__(self, run_dir: Path) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        self._gone_s: float | None = None
        with contextlib.ExitStack() as undo:
            self._saved = [_kept(fd) for fd in range(3)]
            undo.callback(self._close_saved)
            self._terminal = TerminalState(self._saved[0])
            self._capture = Capture(run_dir)
            undo.callback(self._capture.close)
            control, self._control = map(above_standard_streams, os.pipe())
            undo.callback(os.close, self._control)
            try:
                self._companion = self._start_companion(run_dir, control)
            finally:
                os.close(control)
            self._capture.forget_tee()
            _flush()
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            for source, fd in ((null, 0), (self._capture.sink.fileno(), 1)):
                os.dup2(source, fd)
            os.dup2(1, 2)
            os.close(null)
            self._capture.sink.close()
            undo.pop_all()

    def tend(self) -> None:
        if self._is_over or not self._lock.acquire(blocking=False):
            return
        try:
            if self._is_over:
                return
            self._capture.tend()
            if self._companion.poll() is None:
                return
            if self._gone_s is None:
                self._gone_s = time.monotonic()
            elif time.monotonic() - self._gone_s > _COMPANION_GONE_S:
                self._give_back()
        except Exception:  # noqa: BLE001 (the shipper goes on whatever this was)
            self._is_over = self._is_over or self._gone_s is not None
        finally:
            self._lock.release()

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_over:
                return
            _flush()
            with contextlib.suppress(OSError):
                os.write(self._control, b".")
            interrupted = self._await_companion()
            with contextlib.suppress(Exception):
                self._give_back()
        if interrupted is not None:
            raise interrupted

    def _await_companion(self) -> BaseException | None:
        """Its report stands before what a shell says next. What a signal handler has raised
        meanwhile: the first time it makes the wait shorter, then it ends it."""
        interrupted: BaseException | None = None
        for patience_s in (_END_S, _HURRIED_END_S):
            try:
                self._companion.wait(patience_s)
            except subprocess.TimeoutExpired:
                break
            except BaseException as error:  # noqa: BLE001 - signal handlers raise what they like
                interrupted = error
            else:
                return interrupted
        try:
            self._companion.kill()
            self._companion.wait()
            # Its sidecar leaves the screen when it sees that.
            time.sleep(_COMPANION_GONE_S)
        except BaseException as error:  # noqa: BLE001
            interrupted = error
        return interrupted

    def _give_back(self) -> None:
        self._is_over = True
        if self._companion.returncode:
            self._terminal.restore(modes=True)
        _flush()
        for fd, saved in enumerate(self._saved):
            os.dup2(saved, fd)
        self._close_saved()
        os.close(self._control)
        self._capture.close()

    def _start_companion(self, run_dir: Path, control: int) -> Helper:
        tee = self._capture.tee
        fds = ["--control", str(control), "--tee", str(tee), "--interval", str(INTERVAL_S)]
        module = "unilab_metrics.run.launching.companion"
        with unheard_interrupts(), unforked():
            return Helper(
                [
                    *(helper_python(os.environ), "-m", module, os.fspath(run_dir)),
                    *("--parent", str(os.getpid()), *fds),
                ],
                env=python_environment(os.environ),
                pass_fds=[control, tee],
            )

    def _close_saved(self) -> None:
        while self._saved:
            os.close(self._saved.pop())


def _is_interactive() -> bool:
    """Whether somebody types into this very process."""
    is_prompt = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    return is_prompt or hasattr(builtins, "get_ipython") or sys.gettrace() is not None


def _kept(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            flush: Any = stream.flush
            flush()
