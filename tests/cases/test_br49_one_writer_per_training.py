"""BR-49: helpers and the run exist once per training, at the global rank 0."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from case_runs import ended, finish, processes, run, scalars, start
from real_runs import only_run, until

RANK = """
import sys, warnings
import unilab_metrics as um

warnings.simplefilter("ignore")
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
publisher.log({"Loss/value": float(publisher.rank)}, iteration=0)
print(publisher.rank, publisher.identity.run.world_size, flush=True)
sys.stdin.readline()
publisher.close(float(sys.argv[2]))
"""


def answer(process: subprocess.Popen[str]) -> tuple[int, int]:
    assert process.stdout is not None
    rank, world_size = process.stdout.readline().split()
    return int(rank), int(world_size)


def test_two_nodes_with_two_ranks_have_one_run_and_one_writer(tmp_path: Path) -> None:
    ranks = [
        start(
            RANK, tmp_path, "30",
            RANK=str(2 * node + local), LOCAL_RANK=str(local), GROUP_RANK=str(node),
            WORLD_SIZE="4", LOCAL_WORLD_SIZE="2", GROUP_WORLD_SIZE="2",
            MASTER_ADDR="10.0.0.1", MASTER_PORT="29500",
        )
        for node in (0, 1)
        for local in (0, 1)
    ]  # fmt: skip
    assert [answer(process) for process in ranks] == [(rank, 4) for rank in range(4)]
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
    # The point is there, so whatever is started has been started.
    until(lambda: list(run_dir.glob("*tfevents*")))
    assert len(processes("write")) == 1
    assert len(processes("aggregate")) == 1
    for process in ranks:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in ranks:
        finish(process)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(0, 1.5)]}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, (1, 2)),
        pytest.param({"RANK": "1", "LOCAL_RANK": "0"}, (1, 2), marks=pytest.mark.slow),
        ({"SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}, (3, 4)),
        ({"UNILAB_DP_RANK": "1", "UNILAB_DP_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, (1, 2)),
    ],
)
def test_another_rank_starts_nothing_and_makes_no_directory(
    environment: dict[str, str], expected: tuple[int, int], tmp_path: Path
) -> None:
    process = start(RANK, tmp_path / "logs", "0.2", **environment)
    assert answer(process) == expected
    assert [found.pid for found in processes()] == [process.pid]
    finish(process, say="\n")
    assert processes() == []
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "0", "LOCAL_RANK": "3", "WORLD_SIZE": "1"}, (0, 1)),
        pytest.param({}, (0, 1), marks=pytest.mark.slow),
        pytest.param({"LOCAL_RANK": "1"}, (0, 1), marks=pytest.mark.slow),
    ],
)
def test_the_global_rank_0_has_the_run(
    environment: dict[str, str], expected: tuple[int, int], tmp_path: Path
) -> None:
    output = run(RANK.replace("sys.stdin.readline()", ""), tmp_path, "30", **environment)
    assert output.split() == [str(number) for number in expected]
    run_dir = only_run(tmp_path)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(0, 0.0)]}
