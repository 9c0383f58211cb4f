"""Half of the journal is damaged under a live run, and its helpers are killed or are not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, finish, processes, scalars, start, updates
from cut_off_run import newest
from real_runs import only_run, until

from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.transport.rendezvous import bus_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

RANK = """
import sys, time, warnings
from pathlib import Path
import unilab_metrics as um

warnings.simplefilter("ignore")
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
damaged, left = Path(sys.argv[2]), 150  # so many iterations after the damage
iteration = 0
with publisher:
    while left:
        publisher.log({"Loss/value": iteration / 3}, iteration=iteration)
        if iteration % 50 == 0:
            publisher.event("status", f"at {iteration}")
        left -= damaged.exists()
        iteration += 1
        time.sleep(0.01)
print(iteration)
"""


@pytest.mark.parametrize(
    ("left", "kills"),
    [(0.5, True), (0.5, False), (0.0, True)],
    ids=["half and killed", "half", "emptied and killed"],
)
@pytest.mark.parametrize("prefix", ["wal", "history"])
def test_each_iteration_is_there_once(
    prefix: str, left: float, kills: bool, tmp_path: Path
) -> None:
    logs, damaged = tmp_path / "logs", tmp_path / "damaged"
    training = start(RANK, logs, damaged)
    until(lambda: any(logs.rglob("*tfevents*")), 60.0)
    run_dir = only_run(logs)
    aggregator_pid(run_dir)
    path = newest(bus_directory(run_dir), prefix)
    until(lambda: path.stat().st_size > 4000, 60.0)
    os.truncate(path, int(path.stat().st_size * left))
    if kills:
        for process in (*processes("aggregate"), *processes("write")):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    damaged.touch()
    iterations = range(int(finish(training)))
    until(lambda: not processes(), 60.0)
    recover_run(run_dir)
    assert ended(run_dir).history.ended == "completed"
    assert [update.iteration for update, _ in updates(run_dir)] == list(iterations)
    points = scalars(run_dir)["Loss/value"]
    assert [step for step, _ in points] == list(iterations)
    assert [value for _, value in points] == pytest.approx([k / 3 for k in iterations])
