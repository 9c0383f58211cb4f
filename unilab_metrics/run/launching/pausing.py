"""Ctrl+Z on a launcher: its ranks pause with it, and go on with it.

They lead sessions of their own, where the terminal's signals do not reach them, and where
``SIGTSTP`` would do nothing. Whoever is paused this way would stay so if the launcher were killed
meanwhile, so somebody watches over that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator, Sequence

# Ends when nobody holds the other end of its input any more, whether we go on or are killed.
_GUARDIAN = 'read _; kill -s CONT -- "$@"'


def pause_with(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop the process groups that ``processes`` lead, then this process as ``SIGTSTP`` does by
    default, and let them go on when it goes on. Without a shell that could continue us nothing
    stays stopped. Main thread only; never raises."""
    groups = [process.pid for process in processes if _leads_group(process)]
    with contextlib.suppress(OSError), _guarded(groups):
        for group in groups:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGSTOP)
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            # To this very thread: it stops here.
            signal.raise_signal(signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, before)


@contextlib.contextmanager
def _guarded(groups: Sequence[int]) -> Generator[None]:
    """Whatever becomes of us, the groups are continued after it. Raises ``OSError`` before it
    begins if that cannot be promised."""
    command = ["sh", "-c", _GUARDIAN, "sh", *(f"-{group}" for group in groups)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        yield


def _leads_group(process: subprocess.Popen[bytes]) -> bool:
    try:
        return process.returncode is None and os.getpgid(process.pid) == process.pid
    except OSError:
        return False
