"""``attach`` and ``ls`` on a run that is going on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_runs import until

TRAINING = """
import sys, time
import unilab_metrics as um
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(1, 2000):
    publisher.log({"Loss/actor": 1.0}, iteration=iteration, env_steps=32 * iteration)
    if sys.stdin.readline() == "":
        break
publisher.close()
"""


class Training:
    """A run in our hands: one iteration per call."""

    def __init__(self, logs: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(logs)], stdin=subprocess.PIPE, text=True
        )
        try:
            until(lambda: list(logs.glob("*/*/*/bus/bus.json")))
        except AssertionError:
            self.process.kill()
            self.end()
            raise
        (self.run_dir,) = logs.glob("*/*/*")

    def iterate(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(timeout=60)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path)
    yield made
    made.end()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "unilab_metrics", *arguments]


def test_attach_follows_the_newest_live_run_to_its_end(training: Training) -> None:
    with subprocess.Popen(command("attach", "--lines"), stdout=subprocess.PIPE, text=True) as view:
        assert view.stdout is not None
        lines: list[str] = []
        for line in view.stdout:
            lines.append(line)
            if line.startswith("iter "):
                training.end()
            elif training.process.poll() is None:
                training.iterate()
        assert view.wait(timeout=60) == 0
    assert any(line.startswith("iter ") for line in lines)
    assert lines[-1].strip().partition("  ")[0] == "run ended: completed"
    assert "\x1b" not in "".join(lines)


@pytest.mark.slow
def test_ending_an_attached_sidecar_leaves_the_training_alone(training: Training) -> None:
    with subprocess.Popen(
        command("attach", str(training.run_dir), "--lines"), stdout=subprocess.PIPE, text=True
    ) as view:
        assert view.stdout is not None
        view.stdout.readline()
        view.send_signal(signal.SIGINT)
        view.wait(timeout=60)
    training.iterate()
    assert training.process.poll() is None


def test_ls_shows_the_run_while_it_lives_and_its_status_afterwards(
    training: Training, tmp_path: Path
) -> None:
    def listed() -> list[str]:
        done = subprocess.run(
            command("ls", "--logs", str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.split()

    found = listed()
    assert (found[0], found[-1]) == ("live", str(training.run_dir))
    training.end()
    until(lambda: listed()[0] != "live")
    found = listed()
    assert found[0] == "done"
    assert str(training.run_dir) in found
    assert "iterations," in found or "iteration," in found


def test_a_second_aggregator_is_refused(training: Training) -> None:
    done = subprocess.run(
        command("aggregate", str(training.run_dir)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 5
    assert "the run has a live aggregator (pid " in done.stderr
