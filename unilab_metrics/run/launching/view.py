"""What a launcher shows while its training runs: the sidecar, or plain lines.

Both are processes of their own, so that nothing on the screen can hold up or take down the
launcher, and through it the training. The sidecar is started, not imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from unilab_metrics.publish.forking import unforked
from unilab_metrics.run.launching.unheard_interrupts import unheard_interrupts
from unilab_metrics.run.processes import Helper, helper_python, python_environment
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.storage.standard_streams import above_standard_streams

_TERMINATE_S = 2.0
_GLANCE_S = 0.05


def sidecar_command(run: Path | str, *options: str) -> list[str]:
    """Command line of a sidecar on this run: its directory or its address."""
    return [helper_python(os.environ), "-m", "unilab_sidecar", os.fspath(run), *options]


class View:
    """A process that shows the run. ``owns_screen``: full screen, else plain lines."""

    def __init__(
        self, process: subprocess.Popen[bytes], *, owns_screen: bool, kept: int | None = None
    ) -> None:
        """``kept``: where a byte comes when somebody keeps it open; not blocking, closed by us."""
        self.process = process
        self.owns_screen = owns_screen
        self._kept = kept
        self._is_kept = False

    @classmethod
    def sidecar(cls, run_dir: Path, *options: str, may_be_kept: bool = False) -> View:
        """The full-screen sidecar on our terminal, in our process group. Raises ``OSError``.

        ``may_be_kept``: somebody may keep it open after the run's end."""
        command = sidecar_command(run_dir, "--launched", "--exit-with-run", *options)
        if not may_be_kept:
            with unheard_interrupts():
                process = subprocess.Popen(command, env=python_environment(os.environ))
            return cls(process, owns_screen=True)
        kept, keep = map(above_standard_streams, os.pipe())
        try:
            os.set_blocking(kept, False)
            with unheard_interrupts():
                process = subprocess.Popen(
                    [*command, "--keep", str(keep)],
                    env=python_environment(os.environ),
                    pass_fds=[keep],
                )
        except BaseException:
            os.close(kept)
            raise
        finally:
            os.close(keep)
        return cls(process, owns_screen=True, kept=kept)

    @property
    def is_kept(self) -> bool:
        """Whether somebody has kept it open, and it is."""
        if self._kept is None or self.exit_status is not None:
            return False
        if not self._is_kept:
            with contextlib.suppress(BlockingIOError):
                self._is_kept = bool(os.read(self._kept, 1))
        return self._is_kept

    @classmethod
    def lines(
        cls,
        run_dir: Path,
        *,
        interval_s: float | None = None,
        output: int | None = None,
        first_line: str = "",
    ) -> View:
        """One plain line per interval, by default every few seconds. Raises ``OSError``.

        ``output``: as of ``Popen``, by default our standard output. ``first_line``: said before
        all others, if it is not empty. In a session of its own, so
        that Ctrl+C is ours to handle.
        """
        pace = [] if interval_s is None else ["--interval", f"{interval_s:g}"]
        if first_line:
            pace.append(f"--first-line={first_line}")
        command = sidecar_command(run_dir, "--lines", "--launched", "--exit-with-run", *pace)
        with unforked():
            process = Helper(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                env=python_environment(os.environ),
                start_new_session=True,
            )
        return cls(process, owns_screen=False)

    @property
    def exit_status(self) -> int | None:
        """``None`` while it runs, negative for a signal."""
        return self.process.poll()

    def close(self, linger_s: float) -> None:
        """Give it ``linger_s`` to end by itself with the run, then end it."""
        self._end(linger_s)
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None

    def _end(self, linger_s: float) -> None:
        if self._has_ended(linger_s):
            return
        self.process.terminate()
        deadline_s = time.monotonic() + _TERMINATE_S
        while not self._has_ended(_GLANCE_S):
            # One that was put aside has to go on to end; another would paint once more.
            if stat_fields(self.process.pid)[:1] in (["T"], []):
                self.process.send_signal(signal.SIGCONT)
            if time.monotonic() >= deadline_s:
                self.process.kill()
                self.process.wait()
                return

    def _has_ended(self, patience_s: float) -> bool:
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True
