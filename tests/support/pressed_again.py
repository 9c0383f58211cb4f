"""A second Ctrl+C: launchers take the same signal twice at once for one."""

from __future__ import annotations

import signal
import subprocess
import time

from unilab_metrics.run.launching.requests import SAME_S


def interrupt_again(launcher: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """As somebody does who has read what the first one did."""
    time.sleep(2 * SAME_S)
    launcher.send_signal(signal.SIGINT)
