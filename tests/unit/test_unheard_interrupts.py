"""Ctrl+C while a child of ours starts."""

from __future__ import annotations

import signal
import subprocess
import sys

from unilab_metrics.run.launching.unheard_interrupts import unheard_interrupts

# As if it were in the middle of its imports when the signal comes.
_STARTING = """
import os, signal, sys
os.kill(os.getpid(), signal.SIGINT)
print("imported", flush=True)
from unilab_metrics.run.launching.unheard_interrupts import hear_interrupts
signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
hear_interrupts()
"""


def test_a_child_hears_it_when_it_has_a_handler_and_we_at_once() -> None:
    with unheard_interrupts():
        child = subprocess.Popen(
            [sys.executable, "-c", _STARTING],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    out, errors = child.communicate(timeout=30)
    assert (out, errors, child.returncode) == ("imported\nhandled\n", "", 0)
