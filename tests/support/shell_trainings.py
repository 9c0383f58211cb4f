"""Trainings to start in a terminal: with the launcher that shows a sidecar, and by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from case_runs import ended, scalars, updates
from pty_terminals import command_line

TAG = "Loss/value"
RANK = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="ppo", task="Toy", run_dir=run_dir) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
        iteration += 1
        time.sleep(0.02)
    stop.write_text(str(iteration))
"""
_LAUNCHER = """
import subprocess, sys
from pathlib import Path
from unilab_metrics.run.launching.launcher import run_owning_terminal

def start(console):
    return [subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.DEVNULL,
                             stdout=console, stderr=console, start_new_session=True)]

sys.exit(run_owning_terminal(start, Path(sys.argv[2])))
"""


class ShellTraining:
    """A training of one rank at up to 50 iterations a second, which ends when told to."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._stop = run_dir.parent / f"{run_dir.name}.stop"

    @property
    def alone(self) -> str:
        """Its command line, without any launcher."""
        return command_line([sys.executable, "-c", RANK, str(self.run_dir), str(self._stop)])

    @property
    def launched(self) -> str:
        """Its command line, with a launcher around it as the demo has."""
        self.run_dir.mkdir(parents=True)
        return command_line(
            [sys.executable, "-c", _LAUNCHER, RANK, str(self.run_dir), str(self._stop)]
        )

    def iterations(self) -> int:
        """How many are in the history by now."""
        try:
            return len(updates(self.run_dir))
        except OSError:
            return 0

    def stop(self) -> None:
        self._stop.touch()

    def assert_kept(self) -> None:
        """After an end that it was not asked for: what it has logged is there to the last."""
        verified = ended(self.run_dir)
        iterations = [update.iteration for update, _ in updates(self.run_dir)]
        assert iterations == list(range(len(iterations)))
        assert scalars(self.run_dir)[TAG] == [(k, float(k)) for k in iterations]
        assert verified.dropped_calls == {}

    def assert_whole(self) -> None:
        """Every iteration is in the backend, once."""
        ended(self.run_dir)
        count = int(self._stop.read_text())
        assert scalars(self.run_dir)[TAG] == [(k, float(k)) for k in range(count)]
