"""A training that starts again goes on in the same run, as its next attempt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real_runs import only_run, run, start, whole

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import Verified

TRAINING = """
import os, sys, time
import unilab_metrics as um
logs, run_dir, first, last, how = sys.argv[1:]
publisher = um.init(
    algorithm="sac", task="Toy", sim_backend="numpy", log_root=logs, run_dir=run_dir or None
)
for iteration in range(int(first), int(last)):
    publisher.log({"Loss/actor": 1.0}, iteration=iteration, env_steps=32 * iteration)
if how == "die":
    while not os.path.exists(os.environ["UNILAB_METRICS_RUN"] + "/bus/bus.json"):
        time.sleep(0.02)
    os._exit(1)
assert publisher.close(timeout_s=45), (publisher.errors, publisher.unsent)
"""
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500", "WORLD_SIZE": "1"}
AGENT = {**TORCHRUN, "RANK": "0"}


def die(logs: Path, run_dir: str = "", **environment: str) -> None:
    with start(TRAINING, str(logs), run_dir, "1", "21", "die", **environment) as process:
        process.communicate(timeout=60)
    assert process.returncode == 1


def attempts(run_dir: Path, *, is_restartable: bool = False) -> Verified:
    verified = whole(run_dir, is_restartable=is_restartable)
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == "completed"
    assert summary["bus"]["attempt"] == 2
    return verified


@pytest.mark.slow
def test_a_run_directory_that_is_used_again_goes_on(tmp_path: Path) -> None:
    run_dir = tmp_path / "mine"
    die(tmp_path, str(run_dir))
    whole(run_dir)
    run(TRAINING, str(tmp_path), str(run_dir), "11", "31", "close", timeout_s=90)
    assert attempts(run_dir).points_per_tag["Loss/actor"] == 40


@pytest.mark.slow
def test_a_restart_while_the_aggregator_is_ending_goes_on(tmp_path: Path) -> None:
    run_dir = tmp_path / "mine"
    die(tmp_path, str(run_dir))
    run(TRAINING, str(tmp_path), str(run_dir), "11", "31", "close", timeout_s=90)
    assert attempts(run_dir).points_per_tag["Loss/actor"] == 40


@pytest.mark.slow
def test_torchruns_restart_finds_the_run_of_the_dead_rank_0(tmp_path: Path) -> None:
    die(tmp_path, **AGENT)
    run(TRAINING, str(tmp_path), "", "11", "31", "close", timeout_s=90, **AGENT)
    run_dir = only_run(tmp_path)
    assert attempts(run_dir, is_restartable=True).points_per_tag["Loss/actor"] == 40
    assert json.loads((run_dir / "run_config.json").read_text())["run"]["task"] == "Toy"


def test_a_new_launch_without_a_directory_is_a_new_run(tmp_path: Path) -> None:
    die(tmp_path)
    run(TRAINING, str(tmp_path), "", "1", "11", "close", timeout_s=90)
    assert len(list(tmp_path.glob("*/*/*"))) == 2
