"""A part of the demo that is really slow is what the sidecar says to be the bottleneck."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import ended, processes
from real_runs import only_run, until

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.series import Series

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)

GONE = "bottleneck: nothing stands out any more"


def train(folder: Path, *arguments: str, status: int = 0) -> list[str]:
    """The plain lines of the sidecar on a training, which is stopped once one is of a bottleneck:
    a sidecar that comes late on a busy machine still has to see it live."""
    command = [
        sys.executable, "-m", "unilab_metrics", "demo", "--ranks", "1", "--headless",
        f"training.log_root={folder}", "algo.learning_starts=64", *arguments,
    ]  # fmt: skip
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if is_of_bottleneck(line) and not any(map(is_of_bottleneck, lines)):
                demo.send_signal(signal.SIGINT)
            lines.append(line.rstrip("\n"))
    assert demo.returncode == status, lines
    until(lambda: not processes())
    return lines


def is_of_bottleneck(line: str) -> bool:
    return line.startswith("bottleneck: ")


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
    ("part", "wait_ms", "updates", "rule", "begin", "words"),
    [
        ("env", 600, 1, "collector", "Collector Wait ", ("Env Step ", "look at env step, ")),
        ("learner", 300, 6, "learner", "Learning ", ("Learner Action Wait ", "updates_per_step")),
        ("inference", 600, 1, "inference", "Inference ", ("look at forward 6",)),
        ("prefetch", 600, 1, "prefetch", "Replay Batch Wait ", ("side-stream gather",)),
        (
            "ingress",
            600,
            1,
            "ingress",
            "Replay Write ",
            ("Collector Wait ", "copy into the ingress"),
        ),
        ("submit", 150, 6, "submit", "Replay H2D Submit ", ("no iteration time lost", "Perfetto")),
    ],
)
def test_exactly_the_slow_part_is_told(
    part: str,
    wait_ms: int,
    updates: int,
    rule: str,
    begin: str,
    words: tuple[str, ...],
    tmp_path: Path,
) -> None:
    # What hides a wait is an iteration that takes as long, as six updates do on a busy machine.
    slow = ("--slow", part, f"slow.wait_ms={wait_ms}", f"algo.updates_per_step={updates}")
    # Far more than it takes; a learner that is not held up is fast.
    iterations = "3200" if part == "submit" else "100"
    lines = train(tmp_path, *slow, "--iterations", iterations, status=130)
    told = list(filter(is_of_bottleneck, lines))
    assert told[0].startswith(f"bottleneck: {begin}")
    assert all(word in told[0] for word in words)
    assert all(line.startswith(f"bottleneck: {begin}") or line == GONE for line in told)
    assert ended(only_run(tmp_path)).history.ended == "stopped"
    assert rules_shown(only_run(tmp_path)) == {None, rule}


@pytest.mark.slow
def test_a_demo_in_which_nothing_is_slow_is_told_nothing(tmp_path: Path) -> None:
    lines = train(tmp_path, "algo.updates_per_step=6", "--iterations", "250")
    assert not list(filter(is_of_bottleneck, lines))
    assert rules_shown(only_run(tmp_path)) == {None}
