"""The demo's ranks as real processes, with files in the place of the bus."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from demo_tags import COLLECTOR_TABLE

from unilab_metrics.demo.environment import REWARD_WEIGHTS
from unilab_metrics.demo.launch import free_port
from unilab_metrics.demo.stop import LIFELINE_VARIABLE

pytestmark = pytest.mark.timeout(300)

RANK_PROGRAM = Path(__file__).parents[1] / "support" / "demo_rank.py"
PATIENCE_S = 120.0
SMALL = (
    "algo.num_envs=8",
    "algo.batch_size=32",
    "algo.updates_per_step=2",
    "algo.learning_starts=64",
    "algo.hidden_size=16",
    "env.episode_ticks=20",
)
ENDLESS = ("algo.max_iterations=1000000",)

LEARNER_TAGS = {
    "Loss/actor",
    "Loss/critic",
    "Loss/temperature",
    "Loss/entropy",
    "Loss/learning_rate",
    "Policy/temperature",
    "Policy/mean_std",
    "Train/actor_gradient_norm",
    "Train/critic_gradient_norm",
    "Train/target_q_max",
    "Train/target_q_min",
    "Train/replay_ingress_depth",
    "Train/replay_ingress_occupancy",
    "Train/replay_ingress_high_water",
    "Train/replay_ingress_backpressure_wait_ms",
    "Train/replay_ingress_dropped_batches",
    "Perf/learning_time",
    "Perf/learner_collector_wait_ms",
    "Perf/learner_inference_ms",
    "Perf/learner_inference_h2d_ms",
    "Perf/learner_inference_forward_ms",
    "Perf/learner_inference_d2h_ms",
    "Perf/learner_collector_release_ms",
    "Perf/learner_replay_batch_wait_ms",
    "Perf/learner_replay_sample_ms",
    "Perf/replay_ingress_h2d_submit_ms",
    "Perf/dp_gradient_sync_ms_per_rank",
    "Perf/dp_gradient_sync_calls_per_rank",
    "Terminal/replay_rows_per_s",
    "Terminal/buffer_size",
    "Terminal/buffer_capacity",
    "Terminal/num_envs",
    "Terminal/batch_per_rank",
    "Terminal/mps",
}
COLLECTOR_TAGS = {
    *(f"reward/{term}" for term in REWARD_WEIGHTS),
    *COLLECTOR_TABLE,
    "Train/mean_reward",
    "Train/mean_episode_length",
    "Episode/timeout_rate",
    "gauge/queue_depth",
    "gauge/action_backlog",
    "gauge/in_flight",
    "gauge/publication_lag",
}


class Training:
    """The ranks of one training and what their processes have said."""

    def __init__(self, folder: Path, ranks: int, overrides: tuple[str, ...]) -> None:
        self._folder = folder
        self._lifeline, self._held = os.pipe()
        port = free_port()
        given = {word.partition("=")[0] for word in overrides}
        words = [word for word in SMALL if word.partition("=")[0] not in given]
        words += overrides
        self.ranks: list[subprocess.Popen[bytes]] = []
        for rank in range(ranks):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                LIFELINE_VARIABLE: str(self._lifeline),
            }
            with (folder / f"output-{rank}").open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, str(RANK_PROGRAM), str(folder), *words],
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(self._lifeline,),
                )
            self.ranks.append(process)

    def said(self, source: str, what: str | None = None) -> list[dict[str, Any]]:
        path = self._folder / f"{source}.jsonl"
        text = path.read_text() if path.exists() else ""
        # What comes after the last line's end is being written.
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        return [line for line in lines if what is None or line["what"] == what]

    def output(self, rank: int) -> str:
        return (self._folder / f"output-{rank}").read_text()

    def pid(self, source: str) -> int:
        return self.said(source, "opened")[0]["pid"]

    def until(self, condition: Callable[[], Any]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, self._state()
            time.sleep(0.02)

    def iterating(self) -> None:
        for rank in range(len(self.ranks)):
            self.until(lambda rank=rank: len(self.said(f"learner-{rank}", "log")) >= 3)

    def exit_codes(self) -> list[int]:
        try:
            return [process.wait(PATIENCE_S) for process in self.ranks]
        except subprocess.TimeoutExpired:
            pytest.fail(self._state())

    def let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
        self._held = None

    def end(self) -> None:
        for process in self.ranks:
            for pid in {process.pid, *_group(process.pid)}:
                if psutil.pid_exists(pid):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self.let_go()
        os.close(self._lifeline)

    def _state(self) -> str:
        outputs = [self.output(rank)[-2000:] for rank in range(len(self.ranks))]
        return f"exit codes {[process.poll() for process in self.ranks]}, outputs {outputs}"


def _group(leader: int) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader:
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


Start = Callable[..., Training]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Training] = []

    def begin(ranks: int, *overrides: str) -> Training:
        training = Training(tmp_path, ranks, overrides)
        started.append(training)
        return training

    yield begin
    for training in started:
        training.end()


def test_two_ranks_train_and_every_process_speaks_for_itself(start: Start, tmp_path: Path) -> None:
    training = start(2, "algo.max_iterations=40")
    assert training.exit_codes() == [0, 0]

    sources = ["learner-0", "collector-0", "learner-1", "collector-1"]
    assert len({training.pid(source) for source in sources}) == 4
    for source in sources:
        assert training.said(source, "closed")[0]["status"] == "completed"

    for learner in ("learner-0", "learner-1"):
        logs = training.said(learner, "log")
        assert [log["iteration"] for log in logs] == list(range(1, 41))
        assert all(set(log["values"]) == LEARNER_TAGS for log in logs)
        steps = [log["env_steps"] for log in logs]
        assert steps == sorted(steps)
        assert all(step % 8 == 0 for step in steps)
        assert training.said(learner, "start_training")[0]["env_steps"] >= 64
    for collector in ("collector-0", "collector-1"):
        reports = training.said(collector, "log")
        assert all(report["iteration"] is None for report in reports)
        assert set[str]().union(*(report["values"] for report in reports)) == COLLECTOR_TAGS
        assert reports[-1]["env_steps"] >= 8 * 40

    assert _same_over_ranks(training, "Train/critic_gradient_norm")
    assert _same_over_ranks(training, "Policy/temperature")
    assert not _same_over_ranks(training, "Loss/critic")
    calls = [log["values"]["Perf/dp_gradient_sync_calls_per_rank"] for log in logs]
    assert calls == [2.0] * 40

    (summary,) = training.said("learner-0", "summary")
    assert summary["completed_iterations"] == 40
    published = [training.said(f"collector-{rank}", "log")[-1]["env_steps"] for rank in (0, 1)]
    assert summary["total_env_steps"] >= sum(published) - 2 * 8
    assert Path(summary["last_checkpoint"]) == tmp_path / "model_40.pt"
    assert (tmp_path / "model_40.pt").is_file()
    assert not training.said("learner-1", "summary")


def _same_over_ranks(training: Training, tag: str) -> bool:
    first, second = (
        [log["values"][tag] for log in training.said(f"learner-{rank}", "log")] for rank in (0, 1)
    )
    return first == second


@pytest.mark.slow
def test_phases_of_an_iteration_fill_its_wall_and_details_lie_inside(start: Start) -> None:
    training = start(1, "algo.max_iterations=30", "training.env_steps_per_sync=4")
    assert training.exit_codes() == [0]

    logs = [log["values"] for log in training.said("learner-0", "log")]
    assert not any("dp_gradient_sync" in tag for log in logs for tag in log)
    for log in logs[1:]:
        details = sum(
            log[f"Perf/learner_inference_{part}_ms"] for part in ("h2d", "forward", "d2h")
        )
        assert details <= log["Perf/learner_inference_ms"] * 1.001
    # Four ticks per iteration, and a report for each of them.
    reports = training.said("collector-0", "log")
    assert len(reports) >= 4 * 30


@pytest.mark.slow
def test_reports_come_at_the_interval_that_was_asked_for(start: Start) -> None:
    training = start(
        1, "algo.max_iterations=40", "training.collector_metrics_interval=10",
        "training.replay_ingress_slot_rows=16",
    )  # fmt: skip
    assert training.exit_codes() == [0]

    steps = [
        report["env_steps"]
        for report in training.said("collector-0", "log")
        if "reward/alive" in report["values"]
    ]
    full = steps[:-1]
    assert full == [80 * (n + 1) for n in range(len(full))]
    assert all(log["env_steps"] % 16 == 0 for log in training.said("learner-0", "log"))


@pytest.mark.slow
def test_a_stopped_learner_does_not_stop_its_collectors_frames(start: Start) -> None:
    training = start(1, *ENDLESS)
    training.iterating()
    os.kill(training.pid("learner-0"), signal.SIGSTOP)
    before = len(training.said("collector-0", "log"))
    training.until(lambda: len(training.said("collector-0", "log")) >= before + 2)
    stopped_at = len(training.said("learner-0", "log"))
    os.kill(training.pid("learner-0"), signal.SIGCONT)

    training.until(lambda: len(training.said("learner-0", "log")) > stopped_at + 3)


@pytest.mark.slow
def test_a_dead_learner_ends_its_collector(start: Start) -> None:
    training = start(1, *ENDLESS)
    training.iterating()
    collector = psutil.Process(training.pid("collector-0"))
    os.kill(training.pid("learner-0"), signal.SIGKILL)

    collector.wait(timeout=PATIENCE_S)
    assert training.said("collector-0", "closed")[0]["status"] == "failed"
    assert "learner" in training.said("collector-0", "event")[-1]["text"]


@pytest.mark.slow
def test_a_dead_collector_ends_its_learner_with_a_clear_error(start: Start) -> None:
    training = start(1, *ENDLESS)
    training.iterating()
    pid = training.pid("collector-0")
    os.kill(pid, signal.SIGKILL)

    assert training.exit_codes() == [1]
    assert f"the collector process (pid {pid}) ended with exit code -9" in training.output(0)
    assert training.said("learner-0", "closed")[0]["status"] == "collector_died"


@pytest.mark.slow
def test_a_dead_rank_ends_the_others(start: Start) -> None:
    training = start(2, *ENDLESS)
    training.iterating()
    os.kill(training.pid("learner-1"), signal.SIGKILL)

    assert training.exit_codes() == [1, -signal.SIGKILL]
    assert training.said("learner-0", "closed")[0]["status"] == "failed"
    training.until(
        lambda: not any(psutil.pid_exists(training.pid(f"collector-{r}")) for r in (0, 1))
    )


@pytest.mark.slow
def test_a_request_to_one_rank_stops_all_after_the_same_iteration(start: Start) -> None:
    training = start(2, *ENDLESS)
    training.iterating()
    os.kill(training.pid("learner-1"), signal.SIGTERM)

    assert training.exit_codes() == [130, 130]
    last = [training.said(f"learner-{rank}", "log")[-1]["iteration"] for rank in (0, 1)]
    assert last[0] == last[1]
    assert "interrupted by SIGTERM" in training.output(1)
    for rank in (0, 1):
        assert training.said(f"collector-{rank}", "closed")[0]["status"] == "completed"


@pytest.mark.slow
def test_ranks_stop_when_their_launcher_is_gone(start: Start) -> None:
    training = start(1, *ENDLESS)
    training.iterating()
    training.let_go()

    assert training.exit_codes() == [130]
    assert "the launcher is gone" in training.output(0)


@pytest.mark.slow
def test_ctrl_c_during_the_warm_up_ends_it(start: Start) -> None:
    training = start(1, "algo.learning_starts=60000")
    training.until(lambda: training.said("learner-0", "event"))
    os.killpg(training.ranks[0].pid, signal.SIGINT)

    assert training.exit_codes() == [130]
    assert not training.said("learner-0", "log")
