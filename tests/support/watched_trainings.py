"""Trainings that print, for launchers and for a sidecar of their own."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil
from case_runs import processes, updates
from pty_terminals import PtyTerminal, command_line

PRINTING = """
import os, signal, subprocess, sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop, sidecar = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] or None
print("BEFORE INIT", flush=True)
with um.init(algorithm="ppo", task="Toy", run_dir=run_dir, sidecar=sidecar) as publisher:
    print("OF PYTHON")
    os.write(1, b"OF A C LIBRARY\\n")
    subprocess.run(["sh", "-c", "echo OF A CHILD; echo OF ITS ERRORS >&2"], check=True)
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
        iteration += 1
        print(f"\\rLOOP {iteration}", end="", flush=True)
        time.sleep(0.02)
    print()
    words = stop.read_text()
    if words == "os._exit":
        os._exit(5)
print("AFTER CLOSE")
"""


class PrintingTraining:
    """Up to 50 iterations a second until it is told how to end."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._stop = run_dir.parent / f"{run_dir.name}.stop"

    def command(self, sidecar: str = "") -> list[str]:
        return [sys.executable, "-c", PRINTING, str(self.run_dir), str(self._stop), sidecar]

    def launched(self, *options: str) -> list[str]:
        launcher = [sys.executable, "-m", "unilab_metrics", "run", *options, "--"]
        return [*launcher, *self.command()]

    def line(self, sidecar: str = "") -> str:
        return command_line(self.command(sidecar))

    def stop(self, how: str = "") -> None:
        """``how``: nothing, or ``os._exit``."""
        new = self._stop.with_suffix(".new")
        new.write_text(how)
        new.replace(self._stop)

    def iterations(self) -> int:
        try:
            return len(updates(self.run_dir))
        except OSError:
            return 0

    def console(self) -> str:
        path = self.run_dir / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def process(self) -> psutil.Process:
        """The training itself, under whatever launcher."""
        (found,) = trainers()
        return found

    def goes_on(self, terminal: PtyTerminal, by: int = 10) -> None:
        so_far = self.iterations()
        terminal.until(lambda: self.iterations() >= so_far + by)


def trainers() -> list[psutil.Process]:
    """The trainings that print, without what launches them; one may end while it is looked at."""
    found: list[psutil.Process] = []
    for process in processes(PRINTING):
        with contextlib.suppress(psutil.Error):
            found += [process] if PRINTING in process.cmdline()[:3] else []
    return found


def started(word: str) -> psutil.Process:
    """The one process of this test with that word in its command."""
    (found,) = processes(word)
    return found


def until_screen(terminal: PtyTerminal) -> None:
    """Once a launcher, a training, its aggregator and a sidecar have started one after the other."""
    terminal.until(lambda: terminal.screen.is_alternate and terminal.is_raw(), 90.0)
    terminal.until_shown("iter ")


def is_as_before(terminal: PtyTerminal) -> bool:
    off = {"1049", "1000", "1003", "1006", "1004", "2004"}
    modes = terminal.screen.modes()
    return (
        terminal.settings() == terminal.before
        and not any(modes[mode] for mode in off)
        and modes["25"]
        and modes["7"]
    )


def pids_of(*words: str) -> set[int]:
    return {process.pid for word in words for process in processes(word)} - {os.getpid()}
