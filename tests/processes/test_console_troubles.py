"""Printing where the disk is full, where nobody reads, and where the view is in a pane of tmux."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import await_end, ended, processes
from pty_terminals import command_line
from real_runs import until
from small_disks import filled, small_disk
from tmux_terminal import Tmux
from watched_trainings import PrintingTraining, pids_of, started

SHELL = "PS1='READY>' exec bash --norc --noprofile --noediting -i"
LOUD = """
import sys
import unilab_metrics as um

with um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1]) as publisher:
    print("NOISE BEGINS", flush=True)
    for _ in range(60_000):
        print("noise " * 10)
    for iteration in range(5):
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("THE LAST WORDS")
"""


@pytest.mark.slow
def test_a_full_disk_costs_lines_and_not_the_training(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4096) as disk:
        run_dir = disk / "run"
        command = [sys.executable, "-m", "unilab_metrics", "run", "--", sys.executable, "-c", LOUD]
        with filled(disk, leave_bytes=1024 * 1024):
            done = subprocess.run(
                [*command, str(run_dir)], capture_output=True, text=True, timeout=60, check=False
            )
        assert done.returncode == 0, done.stderr
        assert "THE LAST WORDS" in done.stdout
        console = (run_dir / "console.log").read_text()
        assert console.startswith("NOISE BEGINS\n")
        assert len(console) < 1024 * 1024


FLOOD = """
import sys, time
from pathlib import Path
import unilab_metrics as um

folder = Path(sys.argv[1])
with um.init(algorithm="ppo", task="Toy", run_dir=folder / "run") as publisher:
    publisher.log({"Loss/value": 1.0}, iteration=0)
    (folder / "begun").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    for _ in range(40):
        print("x" * 1_000_000)
    (folder / "done").touch()
print("AFTER CLOSE")
"""


@pytest.mark.slow
def test_nobody_who_reads_slowly_or_not_at_all_holds_up_the_training(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unilab_metrics", "run", "--", sys.executable, "-c", FLOOD]
    with subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.PIPE) as launcher:
        until((tmp_path / "begun").exists, 30.0)
        launcher.send_signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        try:
            until((tmp_path / "done").exists, 30.0)
        except AssertionError:
            launcher.kill()
            raise
        launcher.send_signal(signal.SIGCONT)
        output, _ = launcher.communicate(timeout=60)
    assert launcher.returncode == 0
    assert b"AFTER CLOSE" in output
    assert len(output) < 35_000_000, "what was too much was left out, and that was said"
    assert b"bytes are not shown]" in output
    kept = [(tmp_path / "run" / name).stat().st_size for name in ("console.log", "console.log.1")]
    assert max(kept) <= 32 * 1024 * 1024
    assert sum(kept) > 20_000_000
    ended(tmp_path / "run")


@pytest.fixture
def tmux(short_path: Path) -> Iterator[Tmux]:
    server = Tmux(short_path, SHELL, columns=160, rows=40)
    yield server
    server.kill_server()


def panes(tmux: Tmux) -> int:
    return int(tmux.state("window_panes"))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["run", "init"])
def test_a_pane_of_tmux_beside_the_training(
    by: str, tmux: Tmux, training: PrintingTraining
) -> None:
    launched = command_line(training.launched("--sidecar", "tmux"))
    tmux.enter(launched if by == "run" else training.line("tmux"))
    tmux.until(lambda: panes(tmux) == 2)
    until(lambda: len(processes("unilab_sidecar")) == 1, 30.0)
    tmux.until_shown("LOOP")
    shown = started("unilab_sidecar")
    training.stop()
    tmux.until_shown("AFTER CLOSE")
    tmux.until(lambda: panes(tmux) == 1)
    await_end(shown.pid)
    until(lambda: not pids_of("unilab_metrics", "-c"), 30.0)
    ended_here = (training.run_dir / "run_summary.json").exists()
    assert ended_here


@pytest.mark.slow
def test_outside_of_tmux_a_pane_is_refused() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "TMUX"}
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "run", "--sidecar", "tmux", "--", "true"],
        capture_output=True, text=True, timeout=30, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 2
    assert "tmux" in done.stderr
