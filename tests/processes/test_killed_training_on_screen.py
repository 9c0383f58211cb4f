"""A training that is killed while somebody looks on: the screen says so and keeps what it had."""

from __future__ import annotations

import subprocess
import sys

import pytest
from case_runs import ended, updates
from pty_terminals import PtyTerminal
from real_runs import until
from watched_trainings import PrintingTraining, is_as_before


@pytest.mark.slow
def test_its_end_and_last_iteration_stay_on_the_screen_until_q(training: PrintingTraining) -> None:
    with subprocess.Popen(
        training.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        until(lambda: training.iterations() > 20, 60.0)
        attach = [sys.executable, "-m", "unilab_metrics", "attach", str(training.run_dir)]
        terminal = PtyTerminal(*attach, columns=120, rows=40)
        try:
            terminal.until_shown("● training")
            process.kill()
            process.wait()
            terminal.until_shown("run ended: failed", 60.0)
            last = max(update.iteration for update, _ in updates(training.run_dir))
            terminal.until(lambda: f"iter {last}" in terminal.screen.text.replace(",", ""))
            terminal.until_shown("SIGKILL")
            terminal.type("q")
            assert terminal.wait() == 0
            assert is_as_before(terminal)
            ended(training.run_dir)
        finally:
            terminal.close()
