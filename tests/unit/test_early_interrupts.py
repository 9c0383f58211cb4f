"""Ctrl+C while the command or the sidecar is still importing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from unilab_metrics.early_interrupts import end_by_interrupts, raise_interrupts

_INTERRUPTED_IMPORT = """
import importlib.abc, os, runpy, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {imported!r}:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait((), 0)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = ["ls"]
runpy.run_module({module!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("unilab_metrics", "unilab_metrics.cli.root"),
        ("unilab_sidecar", "unilab_sidecar.program"),
    ],
)
def test_an_interrupted_import_ends_the_program_without_a_word(module: str, imported: str) -> None:
    program = _INTERRUPTED_IMPORT.format(module=module, imported=imported)
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_interrupts_are_raised_again_for_who_cleans_up() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_by_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    raise_interrupts()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_who_ignores_interrupts_goes_on_with_that() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_by_interrupts()
    raise_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
