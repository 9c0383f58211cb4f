"""A part of the demo that is really slow is what the sidecar says to be the bottleneck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import ended, processes
from real_runs import only_run

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_sidecar.batch import Batch
from unilab_sidecar.series import Series

pytest.importorskip("torch")

GONE = "bottleneck: nothing stands out any more"


def train(folder: Path, *arguments: str) -> list[str]:
    """The plain lines of the sidecar on a whole training."""
    command = [
        sys.executable, "-m", "unilab_metrics", "demo", "--ranks", "1", "--headless",
        f"training.log_root={folder}", "algo.learning_starts=64", "algo.updates_per_step=6",
        *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, check=True, timeout=110, capture_output=True, text=True)
    assert processes() == []
    return done.stdout.splitlines()


def rules_shown(run_dir: Path) -> set[str | None]:
    """What the picture says after each update of the history."""
    series, seen = Series(), set[str | None]()
    with HistoryReader(bus_directory(run_dir)) as reader:
        while records := reader.poll():
            for record in records:
                series.add(Batch((record,)))
                found = series.picture().bottleneck
                seen.add(None if found is None else found.rule)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "iterations", "rule", "begin", "words"),
    [
        ("env", 26, "collector", "Collector Wait ", ("Env Step ", "look at env step, ")),
        ("learner", 8, "learner", "Learning ", ("Learner Action Wait ", "updates_per_step")),
        ("inference", 26, "inference", "Inference ", ("look at forward 15",)),
        ("prefetch", 26, "prefetch", "Replay Batch Wait ", ("side-stream gather",)),
        ("ingress", 26, "ingress", "Replay Write ", ("Collector Wait ", "look at ingress slots")),
        ("submit", 320, "submit", "Replay H2D Submit ", ("no iteration time lost", "Perfetto")),
    ],
)
def test_exactly_the_slow_part_is_told(
    part: str, iterations: int, rule: str, begin: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    lines = train(tmp_path, "--slow", part, "--iterations", str(iterations))
    told = [line for line in lines if line.startswith("bottleneck: ")]
    assert told[0].startswith(f"bottleneck: {begin}")
    assert all(word in told[0] for word in words)
    assert all(line.startswith(f"bottleneck: {begin}") or line == GONE for line in told)
    assert ended(only_run(tmp_path)).history.ended == "completed"
    assert rules_shown(only_run(tmp_path)) == {None, rule}


@pytest.mark.slow
def test_a_demo_in_which_nothing_is_slow_is_told_nothing(tmp_path: Path) -> None:
    lines = train(tmp_path, "--iterations", "250")
    assert not [line for line in lines if line.startswith("bottleneck")]
    assert rules_shown(only_run(tmp_path)) == {None}
