"""What a launcher shows while its training runs: the sidecar, or plain lines.

Both are processes of their own, so that nothing on the screen can hold up or take down the
launcher, and through it the training. The sidecar is started, not imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from unilab_metrics.publish.forking import unforked
from unilab_metrics.run.processes import Helper, helper_python, python_environment
from unilab_metrics.storage.process_table import stat_fields

_TERMINATE_S = 2.0
_GLANCE_S = 0.05


def sidecar_command(run: Path | str, *options: str) -> list[str]:
    """Command line of a sidecar on this run: its directory or its address."""
    return [helper_python(os.environ), "-m", "unilab_sidecar", os.fspath(run), *options]


class View:
    """A process that shows the run. ``owns_screen``: full screen, else plain lines."""

    def __init__(self, process: subprocess.Popen[bytes], *, owns_screen: bool) -> None:
        self.process = process
        self.owns_screen = owns_screen

    @classmethod
    def sidecar(cls, run_dir: Path) -> View:
        """The full-screen sidecar on our terminal, in our process group. Raises ``OSError``."""
        command = sidecar_command(run_dir, "--launched", "--exit-with-run")
        process = subprocess.Popen(command, env=python_environment(os.environ))
        return cls(process, owns_screen=True)

    @classmethod
    def lines(
        cls, run_dir: Path, *, interval_s: float | None = None, output: int | None = None
    ) -> View:
        """One plain line per interval, by default every few seconds. Raises ``OSError``.

        ``output``: as of ``Popen``, by default our standard output. In a session of its own, so
        that Ctrl+C is ours to handle.
        """
        pace = [] if interval_s is None else ["--interval", f"{interval_s:g}"]
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
