"""Many producers of other nodes find a restarted aggregator at once, over CURVE."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from case_runs import aggregator_pid, ended, finish, start
from far_ranks import ELSEWHERE
from real_runs import until

from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.identity import COLLECTOR

PROCESSES = 4
EACH = 16
"""Producers in a process, each with a shipper and a connection of its own."""

NEAR = """
import sys, threading
import unilab_metrics as um
publisher = um.init(algorithm="ppo", run_dir=sys.argv[1], rank=0, bind="tcp://127.0.0.1")
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
iteration = 0
while not ended.wait(0.05):
    iteration += 1
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
assert publisher.close(60)
"""

FAR = f"""
{ELSEWHERE}
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import unilab_metrics as um
first = int(sys.argv[2])
publishers = [
    um.connect(rank=0, instance=number, run_dir=sys.argv[1])
    for number in range(first, first + {EACH})
]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
step = 0
while not ended.wait(0.25):
    step += 1
    for publisher in publishers:
        publisher.point(f"Train/point_{{publisher.identity.key.instance}}", float(step), step)
with ThreadPoolExecutor({EACH}) as pool:
    closed = list(pool.map(lambda publisher: publisher.close(60), publishers))
assert all(closed), closed
"""


def cursors(viewer: Subscriber, life: int) -> dict[int, int]:
    """How far this life of the aggregator has come with each producer that it knows."""
    viewer.poll(50)
    head = viewer.head
    sources = head.sources if head is not None and head.epoch.counter == life else ()
    return {
        source.key.instance: source.cursor
        for source in sources
        if source.key.role == COLLECTOR and source.state == "live"
    }


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_64_producers_are_all_welcomed_by_a_restarted_aggregator(run_dir: Path) -> None:
    near = start(NEAR, run_dir)
    far: list[subprocess.Popen[Any]] = []
    try:
        first = aggregator_pid(run_dir)
        far += [start(FAR, run_dir, str(number * EACH)) for number in range(PROCESSES)]
        with Subscriber.attach(run_dir) as viewer:
            until(lambda: len(cursors(viewer, 1)) == PROCESSES * EACH, 60)
            os.kill(first, signal.SIGKILL)
            aggregator_pid(run_dir, other_than=first)
            began_s = time.monotonic()
            # What it knows of them at first is from its journal.
            until(lambda: len(cursors(viewer, 2)) == PROCESSES * EACH, 60)
            known = cursors(viewer, 2)

            def are_all_heard() -> bool:
                now = cursors(viewer, 2)
                return all(now.get(n, 0) > at for n, at in known.items())

            until(are_all_heard, 120)
            print(f"all welcomed after {time.monotonic() - began_s:.2f} s")
        for process in far:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        for process in (*far, near):
            finish(process, timeout_s=90)
    finally:
        for process in (near, *far):
            process.kill()
            process.communicate()
    verified = ended(run_dir)
    assert verified.lost_frames == 0
