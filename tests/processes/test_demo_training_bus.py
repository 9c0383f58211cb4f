"""The demo with everything around it: launcher, bus, TensorBoard files, summary."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from demo_tags import FROM_COLLECTORS, FROM_LEARNERS, GRADIENT_SYNC

from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.control import SourceStatus
from unilab_schema.metrics import BUS, MetricTable
from unilab_schema.updates import RunEnded, Update

pytestmark = pytest.mark.timeout(300)

WALL = "Perf/iteration_time"
PATIENCE_S = 120.0
SMALL = (
    "algo.num_envs=8",
    "algo.batch_size=32",
    "algo.updates_per_step=2",
    "algo.learning_starts=64",
    "algo.hidden_size=16",
    "env.episode_ticks=20",
)


class Demo:
    """A launcher in a process of its own, and the run that it makes below ``folder``."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return (self._folder / "output").read_text()

    @property
    def run_dir(self) -> Path:
        found: list[Path] = []

        def made() -> bool:
            found[:] = (self._folder / "logs" / "sac" / "cart_reach").glob("*_numpy")
            return bool(found)

        self.until(made)
        return found[0]

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "run_summary.json").read_text())

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(self.output)

    def history(self) -> list[HistoryRecord]:
        with HistoryReader(bus_directory(self.run_dir)) as reader:
            return reader.poll(1_000_000)

    def updates(self) -> list[tuple[Update, dict[str, float]]]:
        return [
            (record.entry, dict(zip(record.tags, record.values().tolist(), strict=True)))
            for record in self.history()
            if isinstance(record.entry, Update)
        ]

    def until(self, condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline_s, self.output
            time.sleep(0.05)

    def training(self) -> None:
        """Waits for the third update."""
        bus = bus_directory(self.run_dir)
        self.until(lambda: bus.is_dir() and len(self.updates()) >= 3)

    def processes(self) -> list[psutil.Process]:
        """Everything that works for this run, whoever its parent is."""
        ours: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if (
                    process.environ().get("TMPDIR") == os.environ["TMPDIR"]
                    and process.pid != os.getpid()
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    ours.append(process)
        return ours

    def kill(self, word: str = "") -> None:
        """Those with the word in their command; some end by themselves with the others."""
        for process in self.processes():
            with suppress(psutil.Error):
                if word in " ".join(process.cmdline()):
                    process.kill()

    def end(self) -> None:
        self.kill()
        self.process.wait()


Start = Callable[..., Demo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Demo] = []

    def begin(*words: str, launcher: list[str] | None = None) -> Demo:
        command = launcher or [sys.executable, "-m", "unilab_metrics", "demo", "--headless"]
        demo = Demo(tmp_path, [*command, *words, *SMALL])
        started.append(demo)
        return demo

    yield begin
    for demo in started:
        demo.end()


def expect_complete(demo: Demo, iterations: int) -> None:
    updates = demo.updates()
    assert [update.iteration for update, _ in updates] == list(range(1, iterations + 1))
    assert all(update.ranks_reported == update.ranks_expected == 2 for update, _ in updates)
    steps = [update.env_steps or 0 for update, _ in updates]
    assert steps == sorted(steps)
    assert all(step % 8 == 0 for step in steps)

    table = MetricTable()
    bus = {tag for _, values in updates for tag in values if tag.startswith("Bus/")}
    assert bus >= set(BUS) - {"Bus/ack_latency_ms"}
    seen: set[str] = set(bus)
    for _, values in updates:
        persisted = {tag for tag in values if (spec := table.spec(tag)) and spec.persisted}
        assert persisted >= FROM_LEARNERS
        seen |= persisted
    assert seen - bus == FROM_LEARNERS | FROM_COLLECTORS
    assert updates[-1][1]["Terminal/num_envs"] == 16.0
    assert updates[-1][1]["Train/replay_ingress_depth"] == 4.0

    ended = [record.entry for record in demo.history() if isinstance(record.entry, RunEnded)]
    assert [entry.status for entry in ended] == ["completed"]
    summary = demo.summary
    assert summary["status"] == "completed"
    assert summary["completed_iterations"] == iterations
    assert summary["total_env_steps"] % 8 == 0
    assert summary["total_env_steps"] >= steps[-1]
    sources = summary["bus"]["sources"]
    places = {(source["rank"], source["role"]) for source in sources}
    assert places == {(rank, role) for rank in (0, 1) for role in ("learner", "collector")}
    assert len({source["pid"] for source in sources}) == 4
    assert summary["bus"]["lost_frames"] == 0
    assert summary["bus"]["dropped_calls"] == {}
    assert summary["final_env_steps_per_sec"] > 0.0
    assert summary["final_inference_ms"] > 0.0
    assert Path(summary["last_checkpoint"]).is_file()
    assert list(demo.run_dir.glob("events.out.tfevents.*"))


@pytest.mark.slow
def test_the_demo_leaves_every_iteration_and_only_its_own_tags(start: Start) -> None:
    demo = start("--iterations", "40")

    assert demo.wait() == 0, demo.output
    assert "\x1b" not in demo.output
    expect_complete(demo, 40)
    demo.until(lambda: not demo.processes())


@pytest.mark.slow
def test_one_rank_has_as_many_points_and_no_tag_of_a_gradient_sync(start: Start) -> None:
    demo = start("--ranks", "1", "--iterations", "20")

    assert demo.wait() == 0, demo.output
    updates = demo.updates()
    assert [update.iteration for update, _ in updates] == list(range(1, 21))
    for _, values in updates:
        assert set(values) >= FROM_LEARNERS - GRADIENT_SYNC
        assert not set(values) & GRADIENT_SYNC
    rows = [values["Terminal/replay_rows_per_s"] * values[WALL] for _, values in updates]
    assert statistics.median(rows) == pytest.approx(2 * 32, rel=0.05), "updates times batch"


@pytest.mark.slow
def test_the_demo_runs_the_same_under_torchrun(start: Start) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    demo = start(
        "--standalone", "-m", "unilab_metrics.demo", "--iterations", "40", launcher=launcher
    )

    assert demo.wait() == 0, demo.output
    demo.until((demo.run_dir / "run_summary.json").exists)
    expect_complete(demo, 40)
    demo.until(lambda: not demo.processes())


@pytest.mark.slow
def test_a_stopped_learner_does_not_stop_its_collectors_frames_on_the_bus(start: Start) -> None:
    demo = start("--iterations", "100000")
    demo.training()
    with Subscriber.attach(demo.run_dir) as subscriber:

        def source(rank: int, role: str) -> SourceStatus | None:
            subscriber.poll(100)
            sources = () if subscriber.head is None else subscriber.head.sources
            return next((s for s in sources if (s.key.rank, s.key.role) == (rank, role)), None)

        demo.until(lambda: source(1, "collector") and source(1, "learner"))
        learner, collector = source(1, "learner"), source(1, "collector")
        assert learner is not None
        assert collector is not None

        def has_told_of_the_run() -> bool:
            subscriber.poll(100)
            head = subscriber.head
            return head is not None and head.best_mean_reward is not None

        demo.until(has_told_of_the_run)
        assert subscriber.head is not None
        assert subscriber.head.first_iteration == 1
        os.kill(learner.pid, signal.SIGSTOP)
        stuck = source(1, "learner")
        assert stuck is not None
        cursors = {collector.cursor}

        def two_more_reports() -> bool:
            now = source(1, "collector")
            assert now is not None
            cursors.add(now.cursor)
            return len(cursors) >= 4

        demo.until(two_more_reports)
        os.kill(learner.pid, signal.SIGCONT)
        reached = len(demo.updates())
        demo.until(lambda: len(demo.updates()) > reached + 5)
    demo.process.send_signal(signal.SIGINT)

    assert demo.wait() == 130


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_loses_nothing(start: Start) -> None:
    demo = start("--iterations", "100000")
    demo.training()
    demo.process.send_signal(signal.SIGINT)

    assert demo.wait() == 130
    demo.until(lambda: not demo.processes())
    assert demo.summary["status"] == "failed"
    assert demo.summary["bus"]["lost_frames"] == 0
    iterations = [update.iteration for update, _ in demo.updates()]
    assert iterations == list(range(1, len(iterations) + 1))
    assert demo.summary["completed_iterations"] == len(iterations)


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process(start: Start) -> None:
    demo = start("--iterations", "100000")
    demo.training()
    demo.process.kill()
    demo.process.wait()

    demo.until(lambda: not demo.processes())
    assert demo.summary["bus"]["lost_frames"] == 0


@pytest.mark.slow
def test_a_killed_training_leaves_a_summary_and_no_process(start: Start) -> None:
    demo = start("--iterations", "100000")
    demo.training()
    demo.kill("unilab_metrics.demo")

    assert demo.wait() not in (0, 130)
    demo.until(lambda: not demo.processes())
    assert demo.summary["status"] in {"failed", "collector_died"}
    iterations = [update.iteration for update, _ in demo.updates()]
    assert iterations == list(range(1, len(iterations) + 1))


def test_an_option_that_cannot_be_used_ends_before_anything_starts(start: Start) -> None:
    demo = start("algo.speed=9")

    assert demo.wait() == 2
    assert "algo.speed: unknown option" in demo.output
    assert not (demo._folder / "logs").exists()
