"""What whoever owns the terminal of a training shows on it, from run to run.

A screen, a pane of tmux beside it, or plain lines; the training's own output while no screen is
there; and the terminal as it was, whatever becomes of the screen.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from unilab_metrics.errors import ExitCode
from unilab_metrics.run.launching import tmux
from unilab_metrics.run.launching.bus_end import has_new_summary
from unilab_metrics.run.launching.pausing import pause_with
from unilab_metrics.run.launching.report import ending
from unilab_metrics.run.launching.terminal import TerminalState, can_take_terminal
from unilab_metrics.run.launching.view import View
from unilab_metrics.run.output.live_output import LiveOutput

TICK_S = 0.1
LAST_LINES = 20
"""How many lines of the training's output are printed when a screen has hidden them."""
_LAST_LINES = "The last lines of the training's output:"
AFTER_CTRL_C = "training goes on; Ctrl+C again stops it"
AFTER_Q = "training goes on; Ctrl+C stops it, unilab-metrics attach shows it again"
_RUN_END_GRACE_S = 1.0
_LINGER_S = 8.0


class Kind(Enum):
    """How a run is shown. ``NOTHING``: not at all."""

    SCREEN = "screen"
    LINES = "lines"
    TMUX = "tmux"
    NOTHING = "nothing"


def kind_for(asked: str, environ: Mapping[str, str]) -> Kind:
    """What ``auto``, ``on``, ``off`` or ``tmux`` come to here."""
    if asked == "off":
        return Kind.NOTHING
    if asked == "tmux":
        return Kind.TMUX if tmux.is_in_tmux(environ) else Kind.LINES
    return Kind.SCREEN if can_take_terminal(environ) else Kind.LINES


class Show:
    """Owned by one thread, the main one, which calls :meth:`tick` instead of sleeping."""

    def __init__(
        self,
        kind: Kind,
        output: LiveOutput,
        *,
        shows_output: bool = True,
        interval_s: float | None = None,
        may_stop: bool = False,
        may_be_kept: bool = False,
        terminal: TerminalState | None = None,
    ) -> None:
        """``shows_output``: the training's bytes too, while no screen hides them. ``may_stop``:
        the screen may ask the training to stop. ``may_be_kept``: somebody may keep the screen
        after the last run's end, for as long as he likes. ``terminal``: as it is to be in the end,
        of who has kept the keys for a screen already."""
        self._options = ("--allow-control",) if may_stop else ()
        self._kind = kind
        self._output = output
        self._shows_output = shows_output
        self._interval_s = interval_s
        self._keeps_keys = terminal is not None
        self._terminal = (terminal or TerminalState()) if kind is Kind.SCREEN else None
        self._run_dir: Path | None = None
        self._earlier_summary = 0
        self._view: View | None = None
        self._pane = ""
        self._interrupted_view = False
        self._may_be_kept = may_be_kept
        output.is_shown = shows_output

    @property
    def _lines_process(self) -> tuple[subprocess.Popen[bytes], ...]:
        """The plain view, to be paused with the training."""
        view = self._view
        return () if view is None or view.owns_screen else (view.process,)

    def begin(self, run_dir: Path, earlier_summary: int) -> None:
        """Show this run, and no other any more. ``earlier_summary``: the stamp of the summary that
        its earlier attempts have left; 0 without one."""
        is_next_attempt = run_dir == self._run_dir and self._view is not None
        if not is_next_attempt and (self._view is not None or self._pane):
            self.end_run(is_hurried=True)
        self._run_dir, self._earlier_summary = run_dir, earlier_summary
        if is_next_attempt:
            return
        with contextlib.suppress(OSError):
            if self._kind is Kind.SCREEN and self._terminal is not None:
                self._terminal.keep_keys(is_starting=True)
                options = [*self._options, f"--terminal={self._terminal.told()}"]
                self._view = View.sidecar(run_dir, *options, may_be_kept=self._may_be_kept)
                self._output.is_shown = self._interrupted_view = False
            elif self._kind is Kind.TMUX:
                self._pane = tmux.open_pane(run_dir, *self._options)
            elif self._kind is Kind.LINES:
                self._view = self._lines()

    def tick(self, timeout_s: float = TICK_S) -> None:
        """Pass on what comes, and look after the view."""
        self._output.pump(timeout_s)
        self._look_after_view()

    def pause(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Stop, as Ctrl+Z does, with these and with the plain view; the terminal is as it was
        meanwhile."""
        terminal = self._terminal if self._kind is Kind.SCREEN else None
        if terminal is not None and terminal.is_raw:
            # That of a screen, which goes on.
            terminal = None
        if terminal is not None:
            terminal.restore(modes=False)
        pause_with([*processes, *self._lines_process])
        if terminal is not None:
            view = self._view
            terminal.keep_keys(is_starting=view is not None and view.owns_screen)

    def interrupt_view(self) -> bool:
        """A Ctrl+C that came before a screen had the keyboard closes it; false without one."""
        if self._view is None or not self._view.owns_screen:
            return False
        self._view.close(0.0)
        self._interrupted_view = True
        return True

    def say(self, *lines: str) -> None:
        """Lines of our own, after all that is to be shown."""
        self._output.say(*lines)

    def end_run(
        self,
        *,
        is_hurried: bool,
        is_watched: bool = True,
        is_impatient: Callable[[], bool] = lambda: False,
    ) -> None:
        """The run is over, or nobody waits for its end: close its view, restore the terminal.
        ``is_watched``: whether a screen may stay for a while; who ends us from outside does not
        look at it. ``is_impatient``: whether a screen that somebody has kept is to be closed too."""
        view, pane, self._view, self._pane = self._view, self._pane, None, ""
        # Without a summary there is no end of the run that it could show.
        has_ended = self._has_ended()
        is_hurried |= not is_watched and view is not None and view.owns_screen
        patience_s = _LINGER_S if has_ended and not is_hurried else 0.0
        if pane:
            if is_hurried or not has_ended:
                tmux.close_pane(pane)
        elif view is not None:
            deadline_s = time.monotonic() + patience_s
            while view.exit_status is None and not is_impatient():
                if time.monotonic() >= deadline_s and (is_hurried or not view.is_kept):
                    break
                self._output.pump(TICK_S)
            view.close(0.0)
            self._leave(view)
        self._show_output()

    def end(self) -> None:
        """After the last run: what a screen has hidden last is printed."""
        self._output.drain(1.0)
        self.restore(modes=False)
        if lines := self._output.take_kept_back(LAST_LINES) if self._shows_output else []:
            self.say(_LAST_LINES, *lines)

    def restore(self, *, modes: bool) -> None:
        """The terminal as it was."""
        if self._terminal is not None:
            self._terminal.restore(modes=modes)

    def _lines(self) -> View:
        view = View.lines(
            self._run_dir or Path(), interval_s=self._interval_s, output=subprocess.PIPE
        )
        if view.process.stdout is not None:
            self._output.listen(view.process.stdout.fileno())
        return view

    def _leave(self, view: View) -> None:
        """After its process has ended."""
        if view.owns_screen:
            status = view.exit_status
            # Only what a signal killed has not cleaned up itself.
            self.restore(modes=status is None or status < 0)
        elif view.process.stdout is not None:
            self._output.forget(view.process.stdout.fileno())
            view.process.stdout.close()

    def _look_after_view(self) -> None:
        view = self._view
        if view is None or view.exit_status is None:
            return
        status, self._view = view.exit_status, None
        view.close(0.0)
        self._leave(view)
        if not view.owns_screen:
            return
        is_over = self._run_ends_now()
        if self._shows_output and (lines := self._output.take_kept_back(LAST_LINES)):
            self.say(*[_LAST_LINES] * is_over, *lines)
        self._show_output()
        if is_over:
            if self._keeps_keys and self._terminal is not None:
                # For the screen of the next run.
                self._terminal.keep_keys()
            return
        # The user has chosen: the next run does not take the terminal again.
        self._kind = Kind.LINES
        is_interrupted = self._interrupted_view or status == ExitCode.INTERRUPTED
        if status and not is_interrupted:
            self.say(f"the sidecar {ending(status)}")
        self.say(AFTER_CTRL_C if is_interrupted else AFTER_Q)
        with contextlib.suppress(OSError):
            self._view = self._lines()

    def _show_output(self) -> None:
        self._output.is_shown = self._shows_output

    def _run_ends_now(self) -> bool:
        """Whether the sidecar left because the run is over, which the ranks notice later."""
        deadline_s = time.monotonic() + _RUN_END_GRACE_S
        while self._run_dir is not None and time.monotonic() < deadline_s:
            if self._has_ended():
                return True
            self._output.pump(TICK_S)
        return False

    def _has_ended(self) -> bool:
        """A summary of an earlier attempt does not count."""
        return self._run_dir is not None and has_new_summary(self._run_dir, self._earlier_summary)
