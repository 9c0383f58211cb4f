"""Learning how the ranks of a launch ended, and leaving word of it for the aggregator.

Only a parent is told. The note is written while the process is still a zombie, so that at no
time neither the system nor the note can say how it ended.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from unilab_metrics.storage.endings import note_ending
from unilab_metrics.transport.rendezvous import bus_directory


class RankEnds:
    """Polls and waits for child processes that are started after it. Owned by one thread."""

    def __init__(self, run_dir: Path | None = None) -> None:
        self._began_mono_ns = time.monotonic_ns()
        self.learn(run_dir)

    def learn(self, run_dir: Path | None) -> None:
        """To which run the processes belong, once that is known."""
        self._bus = None if run_dir is None else bus_directory(run_dir)

    def poll(self, process: subprocess.Popen[bytes]) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        if process.returncode is None:
            self._note(process.pid, os.WNOHANG)
        return process.poll()

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code, once it has ended."""
        if process.returncode is None:
            self._note(process.pid, 0)
        return process.wait()

    def _note(self, pid: int, flags: int) -> None:
        # Nobody reads it where no run was opened, and a note that fails costs a word only.
        with contextlib.suppress(OSError, AttributeError):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | flags)
            if ended is None or self._bus is None:
                return
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            note_ending(
                self._bus,
                pid,
                status,
                started_mono_ns=self._began_mono_ns,
                ended_mono_ns=time.monotonic_ns(),
            )
