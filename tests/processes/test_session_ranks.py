"""The processes of a training find one run: ranks, children, and nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import helpers, only_run, run, start, values_of, whole

from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.places import held_bytes, spool_root

RANK = """
import os, sys, time
from pathlib import Path
import unilab_metrics as um
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
# As ranks do that reduce gradients: none is done before the others have come.
marks = Path(sys.argv[1])
marks.mkdir(exist_ok=True)
(marks / f"rank-{publisher.rank}").touch()
while len(list(marks.glob("rank-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
for iteration in range(1, 51):
    publisher.log(
        {"Loss/actor": 2.0 * publisher.rank}, iteration=iteration, env_steps=32 * iteration
    )
# In close() nobody waits for an aggregator for as long as its start may take here.
while publisher.unsent:
    time.sleep(0.01)
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
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    verified = whole(only_run(tmp_path))
    assert verified.points_per_tag["Loss/actor"] == 50
    assert values_of("Loss/actor", only_run(tmp_path)) == {1.0}


@pytest.mark.slow
def test_two_launches_of_the_same_shell_do_not_meet(tmp_path: Path) -> None:
    for n in (1, 2):
        for process in launch_ranks(tmp_path / str(n)):
            _, errors = process.communicate(timeout=100)
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
    while publisher.unsent:
        time.sleep(0.01)
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


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_children_have_publishers_of_their_own(method: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CHILD)
    logs = tmp_path / "logs"
    subprocess.run(
        [sys.executable, "-W", "error", str(script), str(logs), method], check=True, timeout=100
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


@pytest.mark.slow
def test_a_child_that_starts_before_init_finds_the_run_of_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    connected = "    open(sys.argv[1] + '-connected', 'w').close()\n"
    wait = "    while not os.path.exists(sys.argv[1] + '-connected'):\n        time.sleep(0.01)\n"
    script.write_text(
        CHILD.replace(
            "um.connect(instance=instance)\n", f"um.connect(instance=instance)\n{connected}"
        )
        .replace("    publisher = um.init(", "    open_run = lambda: um.init(")
        .replace("    iteration = 0\n", f"{wait}    publisher = open_run()\n    iteration = 0\n")
    )
    logs = tmp_path / "logs"
    subprocess.run([sys.executable, str(script), str(logs), "spawn"], check=True, timeout=100)
    assert whole(only_run(logs)).points_per_tag["reward/alive"] > 0


@pytest.mark.parametrize("end", ["", "publisher.close(timeout_s=0.2)"])
def test_a_process_without_a_run_says_what_is_missing_and_leaves_nothing(end: str) -> None:
    code = (
        f"import unilab_metrics as um; publisher = um.connect(); publisher.log({{'a': 1.0}})\n{end}"
    )
    with start(code) as process:
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0
    assert errors.count("RuntimeWarning") == 1
    assert "connect() found no run. UNILAB_METRICS_RUN is not set" in errors
    assert list(spool_root().iterdir()) == []


def test_a_run_that_is_known_keeps_the_spool_until_its_aggregator_comes(tmp_path: Path) -> None:
    code = "import sys, unilab_metrics as um; um.connect(run_dir=sys.argv[1]).log({'a': 1.0})"
    (tmp_path / "bus").mkdir(mode=0o700)
    with start(code, str(tmp_path)) as process:
        _, errors = process.communicate(timeout=100)
    assert held_bytes(spool_root()) > 0
    assert "3 unsent: these frames wait in " in errors
    assert f"(no aggregator has answered); `unilab-metrics recover {tmp_path}`" in errors


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


def test_a_rank_that_is_not_0_opens_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, unilab_metrics as um\n"
        "publisher = um.init(algorithm='ppo', log_root=sys.argv[1])\n"
        "publisher.log({'Loss/value': 1.0}, iteration=0)\n"
        "print(publisher.rank)\n"
    )
    with start(code, str(tmp_path), RANK="1", LOCAL_RANK="0", WORLD_SIZE="2") as process:
        output, errors = process.communicate(timeout=100)
    assert output == "1\n"
    assert "`unilab-metrics recover RUN_DIR`" in errors
    assert list(tmp_path.iterdir()) == []
    assert helpers() == []


def test_two_nodes_with_two_ranks_each_have_one_run_and_one_writer(tmp_path: Path) -> None:
    run_dir = tmp_path / "logs" / "sac" / "Toy" / "run"
    shared = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "UNILAB_METRICS_RUN": str(run_dir)}
    ranks = [
        start(RANK, str(tmp_path), RANK=str(rank), LOCAL_RANK=str(rank % 2), **shared)
        for rank in (3, 2, 1, 0)
    ]
    for process in ranks:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    verified = whole(run_dir)
    assert verified.points_per_tag["Loss/actor"] == 50
    assert values_of("Loss/actor", run_dir) == {3.0}
    assert len(list(run_dir.glob("events.*"))) == 1
