"""``init()`` in real processes, from the first frame to the last process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from own_tags import without_bus
from real_runs import fastest_s, helpers, only_run, run, start, summary_s, until, whole

import unilab_metrics as um
from unilab_metrics.config import BACKENDS
from unilab_metrics.run.summary import read_summary
from unilab_metrics.write import process as write_process

TOY = """
import sys, time
import unilab_metrics as um
import unilab_metrics.run.session
before_s = time.perf_counter()
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
init_s = time.perf_counter() - before_s
for iteration in range(int(sys.argv[2])):
    publisher.log({"Loss/value": iteration / 3, "Loss/surrogate": -1.0}, iteration=iteration)
"""


def test_init_takes_less_than_50_ms(tmp_path: Path) -> None:
    code, places = TOY + "print(init_s); publisher.close()", count()
    assert fastest_s(lambda: float(run(code, str(tmp_path / str(next(places))), "1")), 0.05) < 0.05


def test_close_delivers_everything(tmp_path: Path) -> None:
    code = TOY + "assert publisher.close(); print(publisher.dropped)"
    assert run(code, str(tmp_path), "100") == "{}\n"
    verified = whole(only_run(tmp_path))
    assert without_bus(verified.points_per_tag) == {"Loss/value": 100, "Loss/surrogate": 100}
    assert verified.history.ended == "completed"


def test_the_layout_of_the_run(tmp_path: Path) -> None:
    run(TOY + "publisher.set_summary(best_mean_reward=2.5); publisher.close()", str(tmp_path), "3")
    run_dir = only_run(tmp_path)
    whole(run_dir)
    assert run_dir.parent == tmp_path / "rsl_rl_ppo" / "Toy"
    assert {path.name.partition(".tfevents")[0] for path in run_dir.iterdir()} == {
        "bus", "events.out", "run_config.json", "run_summary.json",
    }  # fmt: skip
    assert (run_dir / "bus").stat().st_mode & 0o777 == 0o700
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == "completed"
    assert summary["completed_iterations"] == 3
    assert summary["best_mean_reward"] == 2.5
    assert summary["bus"]["sources"][0]["state"] == "finished"
    assert json.loads((run_dir / "run_config.json").read_text())["run"]["algo"] == "ppo"


@pytest.mark.slow
def test_no_close_call_loses_nothing_and_leaves_no_process(tmp_path: Path) -> None:
    logged_s = float(run(TOY + "print(time.time())", str(tmp_path), "100"))
    # No promise, but a bound against the 30 s after which its close() would give up: in this time
    # an aggregator and a writer start on a machine of others.
    assert time.time() - logged_s < 25
    assert whole(only_run(tmp_path)).points_per_tag["Loss/value"] == 100
    until(lambda: helpers() == [])


def test_a_killed_process_leaves_no_orphan_and_no_lost_frame(tmp_path: Path) -> None:
    code = TOY + "print('logged', flush=True); time.sleep(60)"
    with start(code, str(tmp_path), "100") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "logged\n"
        # A process that dies within milliseconds has started no aggregator yet, and how long a
        # writer takes to start is not what is promised.
        until(lambda: list(tmp_path.glob("*/*/*/events.*")))
        killed_s = time.time()
        process.kill()
    run_dir = only_run(tmp_path)
    assert summary_s(run_dir, killed_s) < 10.0
    verified = whole(run_dir)
    assert verified.points_per_tag["Loss/value"] == 100
    assert verified.history.ended == "failed"
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["metric_schema_version"] == 1
    assert "learner of rank 0" in summary["error"]
    until(lambda: helpers() == [])


def test_an_exception_ends_as_usual_and_delivers(tmp_path: Path) -> None:
    with start(TOY + "raise RuntimeError('out of memory')", str(tmp_path), "10") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "out of memory" in errors
    assert whole(only_run(tmp_path)).points_per_tag["Loss/value"] == 10


@pytest.mark.slow
def test_exit_takes_less_than_a_second_when_the_aggregator_cannot_start(tmp_path: Path) -> None:
    code = TOY + "print(publisher.unsent, publisher.dropped, time.monotonic_ns(), flush=True)"
    errors, places = "", (tmp_path / str(n) for n in count())
    logs = next(places)

    def exit_s() -> float:
        nonlocal errors, logs
        logs = next(places)
        with start(
            code, str(logs), "1000", UNILAB_METRICS_PYTHON=str(tmp_path / "no-python")
        ) as process:
            assert process.stdout is not None
            unsent, dropped, at_ns = process.stdout.readline().rsplit(maxsplit=2)
            _, errors = process.communicate(timeout=60)
            took_ns = time.monotonic_ns() - int(at_ns)
        assert process.returncode == 0
        assert (int(unsent) >= 1000, dropped) == (True, "{}")
        return took_ns / 1e9

    assert fastest_s(exit_s, 1.0) < 1.0
    # What could not be sent waits: an aggregator by hand finishes the run.
    run_dir = only_run(logs)
    assert "could not be started" in errors
    assert f"`unilab-metrics recover {run_dir}`" in errors
    assert errors.count("\n") == 1
    subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)], check=True, timeout=60
    )
    assert whole(run_dir).points_per_tag["Loss/value"] == 1000


def test_a_killed_aggregator_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    code = TOY + (
        "sys.stdin.readline()\n"
        "for iteration in range(100, 200):\n"
        "    publisher.log({'Loss/value': 1.0, 'Loss/surrogate': 2.0}, iteration=iteration)\n"
        "assert publisher.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), "100"], stdin=subprocess.PIPE, text=True
    ) as process:
        until(lambda: list(tmp_path.glob("*/*/*/bus/bus.json")))
        run_dir = only_run(tmp_path)
        pid = json.loads((run_dir / "bus" / "bus.json").read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
    own = without_bus(whole(run_dir).points_per_tag)
    assert own == {"Loss/value": 200, "Loss/surrogate": 200}


def test_disabled_does_nothing(tmp_path: Path) -> None:
    run(TOY + "publisher.close()", str(tmp_path), "3", UNILAB_METRICS_DISABLED="1")
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_a_run_is_one_warning_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with start(TOY + "publisher.close(1.0)", str(tmp_path / "file" / "logs"), "3") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert errors.count("the run is opened when that works") == 1
    assert errors.count("unsent: these frames wait in") == 1


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.slow
def test_arguments_against_the_launcher_raise_in_strict_mode_only(strict: bool) -> None:
    code = f"import unilab_metrics as um; um.init(world_size=2, strict={strict}).log({{}})"
    with start(code, RANK="2", WORLD_SIZE="3") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == (1 if strict else 0)
    assert ("ValueError" in errors) is strict
    assert "rank 2 does not lie in a world of 2" in errors


@pytest.mark.parametrize("backends", ["wandb", ("tensorboard", "wandb")])
def test_a_backend_that_does_not_exist_is_refused_at_once(
    backends: str | tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="no backend 'wandb'; there are: tensorboard"):
        um.init(log_root=tmp_path, backends=backends)
    assert list(tmp_path.iterdir()) == []
    assert write_process.BACKENDS == BACKENDS


@pytest.mark.slow
def test_modules_beside_the_training_are_not_the_helpers(tmp_path: Path) -> None:
    script = (
        TOY.replace("import sys, time", "import os, sys, time, queue, types, click, zmq")
        + "assert publisher.close()"
    ).replace("before_s =", "os.chdir(sys.argv[1]); before_s =", 1)
    for name in ("queue", "types", "click", "zmq"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the training\\'s own')")
    run(script, str(tmp_path), "3")
    assert whole(only_run(tmp_path)).history.updates == 3
