"""Connections that are cut in the middle of a handshake or a frame: everything arrives once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, start
from far_ranks import ELSEWHERE
from real_runs import until
from tcp_relay import relay

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import PointsUpdate

CUT = 25
AT_LEAST = 3000

NEAR = """
import sys
import unilab_metrics as um
publisher = um.init(
    algorithm="ppo", run_dir=sys.argv[1], rank=0, world_size=2, bind="tcp://127.0.0.1"
)
publisher.log({"Loss/value": 0.0}, iteration=1)
sys.stdin.read()
assert publisher.close(60)
"""

FAR = f"""
{ELSEWHERE}
import sys, time
import msgspec
import unilab_metrics as um
import unilab_metrics.transport.rendezvous as rendezvous
from pathlib import Path
read, step = rendezvous.read, 0
rendezvous.read = lambda bus: msgspec.structs.replace(read(bus), tcp_ingest=sys.argv[2])
publisher = um.init(algorithm="ppo", run_dir=sys.argv[1], rank=1, world_size=2)
while step < {AT_LEAST} or not Path(sys.argv[3]).exists():
    publisher.point("Train/point", float(step), step)
    step += 1
    time.sleep(0.001)
publisher.log({{"Loss/value": 0.0}}, iteration=1)
assert publisher.close(60)
print(step)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_connections_that_are_cut_anywhere_lose_nothing(run_dir: Path, tmp_path: Path) -> None:
    seeded = random.Random(7)
    bytes_of = [seeded.randrange(1, 800) for _ in range(8)]
    bytes_of += [seeded.randrange(800, 20_000) for _ in range(CUT - len(bytes_of))]
    near = start(NEAR, run_dir)
    try:
        aggregator_pid(run_dir)
        target = parse_tcp(rendezvous.read(bus_directory(run_dir)).tcp_ingest)
        # A connection that ends by itself is none of those that were cut.
        allowance = [*bytes_of, None]
        with relay(
            (target.host, target.port), lambda _: allowance[min(between.cuts, CUT)]
        ) as between:
            all_cut = tmp_path / "all cut"
            far = start(FAR, run_dir, f"tcp://127.0.0.1:{between.port}", all_cut)
            try:
                until(lambda: between.cuts == CUT, 90.0)
                all_cut.touch()
                points = int(finish(far, timeout_s=90))
            finally:
                far.kill()
                far.communicate()
        finish(near)
    finally:
        near.kill()
        near.communicate()
    ended(run_dir)
    with HistoryReader(bus_directory(run_dir)) as reader:
        steps: list[int] = []
        while records := reader.poll():
            steps += [
                point.step
                for record in records
                if isinstance(record.entry, PointsUpdate)
                for point in record.entry.frame.points
            ]
    assert steps == list(range(points))
