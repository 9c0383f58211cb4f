"""``init()`` and ``connect()`` in real processes, from the first frame to the last process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verify import Verified, verify_run
from unilab_metrics.storage.filesystem import held_bytes, runtime_directory, spool_root
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease

DRAIN_S = 10.0


def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def run(code: str, *arguments: str, timeout_s: float = 60, **environment: str) -> str:
    with start(code, *arguments, **environment) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    assert errors == ""
    return output


def until(condition: Callable[[], Any], timeout_s: float = DRAIN_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.02)


def only_run(logs: Path) -> Path:
    (found,) = logs.glob("*/*/*")
    return found


def helpers() -> list[int]:
    """Aggregators and writers that belong to this test."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("TMPDIR") == os.environ["TMPDIR"]
                and process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def whole(run_dir: Path) -> Verified:
    """The run when its aggregator is gone: whole, and nothing left behind."""
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))
    verified = verify_run(run_dir)
    assert verified.history.ended is not None
    assert verified.lost_frames == 0
    assert verified.dropped_calls == {}
    until(lambda: held_bytes(spool_root()) == 0)
    until(lambda: not any(path.is_socket() for path in runtime_directory().iterdir()))
    if verified.history.ended == "completed":
        until(lambda: list(runtime_directory().iterdir()) == list(spool_root().iterdir()) == [])
    return verified


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


def test_init_takes_less_than_50_ms_and_close_delivers_everything(tmp_path: Path) -> None:
    code = TOY + "print(init_s); assert publisher.close(); print(publisher.dropped)"
    init_s, dropped = run(code, str(tmp_path), "100").split()
    assert float(init_s) < 0.05
    assert dropped == "{}"
    verified = whole(only_run(tmp_path))
    assert verified.points_per_tag == {"Loss/value": 100, "Loss/surrogate": 100}
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


def test_no_close_call_loses_nothing_and_leaves_no_process(tmp_path: Path) -> None:
    began_s = time.monotonic()
    run(TOY, str(tmp_path), "100")
    assert time.monotonic() - began_s < DRAIN_S
    assert whole(only_run(tmp_path)).points_per_tag["Loss/value"] == 100
    until(lambda: helpers() == [])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifty_starts_in_a_row_lose_nothing_sent_right_after_init(tmp_path: Path) -> None:
    for attempt in range(50):
        logs = tmp_path / str(attempt)
        run(TOY + "assert publisher.close()", str(logs), "100")
        assert whole(only_run(logs)).points_per_tag["Loss/value"] == 100


def test_starts_in_a_row_lose_nothing_sent_right_after_init(tmp_path: Path) -> None:
    for attempt in range(5):
        logs = tmp_path / str(attempt)
        run(TOY + "assert publisher.close()", str(logs), "100")
        assert whole(only_run(logs)).points_per_tag["Loss/value"] == 100


def test_a_killed_process_leaves_no_orphan_and_no_lost_frame(tmp_path: Path) -> None:
    code = TOY + "print('logged', flush=True); time.sleep(60)"
    with start(code, str(tmp_path), "100") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "logged\n"
        process.kill()
    run_dir = only_run(tmp_path)
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
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "out of memory" in errors
    assert whole(only_run(tmp_path)).points_per_tag["Loss/value"] == 10


def test_exit_takes_less_than_a_second_when_the_aggregator_cannot_start(tmp_path: Path) -> None:
    code = TOY + "print(publisher.unsent, publisher.dropped, time.monotonic_ns(), flush=True)"
    with start(
        code, str(tmp_path), "1000", UNILAB_METRICS_PYTHON=str(tmp_path / "no-python")
    ) as process:
        assert process.stdout is not None
        unsent, dropped, at_ns = process.stdout.readline().rsplit(maxsplit=2)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert time.monotonic_ns() - int(at_ns) < 1e9
    assert (int(unsent) >= 1000, dropped) == (True, "{}")
    # What could not be sent waits: an aggregator by hand finishes the run.
    run_dir = only_run(tmp_path)
    subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)], check=True, timeout=30
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
        process.communicate("\n", timeout=40)
    assert process.returncode == 0
    assert whole(run_dir).points_per_tag == {"Loss/value": 200, "Loss/surrogate": 200}


RANK = """
import sys
import unilab_metrics as um
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(1, 51):
    publisher.log(
        {"Loss/actor": 2.0 * publisher.rank}, iteration=iteration, env_steps=32 * iteration
    )
assert publisher.close(), (publisher.errors, publisher.unsent)
print(publisher.rank)
"""


def launch_ranks(tmp_path: Path, **environment: str) -> list[subprocess.Popen[str]]:
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    return [
        start(RANK, str(tmp_path), RANK=str(rank), LOCAL_RANK=str(rank), **shared, **environment)
        for rank in (1, 0)
    ]


def test_the_ranks_of_a_launch_find_one_run_without_being_told(tmp_path: Path) -> None:
    for process in launch_ranks(tmp_path):
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    verified = whole(only_run(tmp_path))
    assert verified.points_per_tag["Loss/actor"] == 50
    assert {point.value for point in verified.history.points if point.tag == "Loss/actor"} == {1.0}


def test_two_launches_of_the_same_shell_do_not_meet(tmp_path: Path) -> None:
    for n in (1, 2):
        for process in launch_ranks(tmp_path / str(n)):
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
        assert whole(only_run(tmp_path / str(n))).points_per_tag["Loss/actor"] == 50


CHILD = """
import multiprocessing, os, sys, time
import unilab_metrics as um

def collect(instance):
    publisher = um.connect(instance=instance)
    for tick in range(20):
        publisher.log({"reward/alive": 1.0 + instance}, env_steps=32 * tick)
        time.sleep(0.005)
    assert publisher.close(), publisher.errors
    os._exit(0)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
    children = [context.Process(target=collect, args=(n,)) for n in (0, 1)]
    for child in children:
        child.start()
    iteration = 0
    while any(child.is_alive() for child in children):
        iteration += 1
        publisher.log({"Loss/actor": 1.0}, iteration=iteration, env_steps=32 * iteration)
        time.sleep(0.01)
    assert [child.exitcode for child in children] == [0, 0]
    publisher.close()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_have_publishers_of_their_own(method: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CHILD)
    logs = tmp_path / "logs"
    subprocess.run(
        [sys.executable, "-W", "error", str(script), str(logs), method], check=True, timeout=60
    )
    run_dir = only_run(logs)
    verified = whole(run_dir)
    assert verified.points_per_tag["reward/alive"] > 0
    summary = read_summary(run_dir)
    assert summary is not None
    sources = summary["bus"]["sources"]
    assert len({source["pid"] for source in sources}) == 3
    assert sorted((source["role"], source["instance"]) for source in sources) == [
        ("collector", 0),
        ("collector", 1),
        ("learner", 0),
    ]


def test_a_child_that_starts_before_init_finds_the_run_of_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        CHILD.replace("    publisher = um.init(", "    open_run = lambda: um.init(").replace(
            "    iteration = 0\n",
            "    time.sleep(0.2)\n    publisher = open_run()\n    iteration = 0\n",
        )
    )
    logs = tmp_path / "logs"
    subprocess.run([sys.executable, str(script), str(logs), "spawn"], check=True, timeout=60)
    assert whole(only_run(logs)).points_per_tag["reward/alive"] > 0


def test_one_process_may_train_twice(tmp_path: Path) -> None:
    code = (
        "import sys, unilab_metrics as um\n"
        "for n in (1, 2):\n"
        "    publisher = um.init(algorithm='ppo', task=f'Toy{n}', log_root=sys.argv[1])\n"
        "    publisher.log({'Loss/value': n}, iteration=0)\n"
        "    assert publisher.close()\n"
    )
    run(code, str(tmp_path))
    for task in ("Toy1", "Toy2"):
        (run_dir,) = (tmp_path / "rsl_rl_ppo" / task).iterdir()
        assert whole(run_dir).history.updates == 1


def test_disabled_does_nothing(tmp_path: Path) -> None:
    run(TOY + "publisher.close()", str(tmp_path), "3", UNILAB_METRICS_DISABLED="1")
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_a_run_is_one_warning_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with start(TOY + "publisher.close()", str(tmp_path / "file" / "logs"), "3") as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert errors.count("metrics of this process are not logged") == 1


@pytest.mark.parametrize("strict", [False, True])
def test_impossible_arguments_raise_in_strict_mode_only(strict: bool) -> None:
    code = f"import unilab_metrics as um; um.init(rank=2, world_size=2, strict={strict})"
    with start(code) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == (1 if strict else 0)
    assert ("ValueError" in errors) is strict


def test_modules_beside_the_training_are_not_the_helpers(tmp_path: Path) -> None:
    script = (
        TOY.replace("import sys, time", "import os, sys, time, queue, types, click, zmq")
        + "assert publisher.close()"
    ).replace("before_s =", "os.chdir(sys.argv[1]); before_s =", 1)
    for name in ("queue", "types", "click", "zmq"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the training\\'s own')")
    run(script, str(tmp_path), "3")
    assert whole(only_run(tmp_path)).history.updates == 3
