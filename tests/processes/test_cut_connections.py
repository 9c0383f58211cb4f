"""Connections that are cut in the middle of a handshake or a frame: everything arrives once."""

from __future__ import annotations

import random
from pathlib import Path

from case_runs import aggregator_pid, ended, finish, start
from far_ranks import ELSEWHERE
from tcp_relay import relay

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import PointsUpdate

CUT = 25
POINTS = 3000

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
read = rendezvous.read
rendezvous.read = lambda bus: msgspec.structs.replace(read(bus), tcp_ingest=sys.argv[2])
publisher = um.init(algorithm="ppo", run_dir=sys.argv[1], rank=1, world_size=2)
for step in range({POINTS}):
    publisher.point("Train/point", float(step), step)
    time.sleep(0.001)
publisher.log({{"Loss/value": 0.0}}, iteration=1)
assert publisher.close(60)
"""


def test_connections_that_are_cut_anywhere_lose_nothing(run_dir: Path) -> None:
    seeded = random.Random(7)
    bytes_of = [seeded.randrange(1, 800) for _ in range(8)]
    bytes_of += [seeded.randrange(800, 20_000) for _ in range(CUT - len(bytes_of))]
    near = start(NEAR, run_dir)
    try:
        aggregator_pid(run_dir)
        target = parse_tcp(rendezvous.read(bus_directory(run_dir)).tcp_ingest)
        allowance = bytes_of + [None] * 1000
        with relay((target.host, target.port), allowance.__getitem__) as between:
            finish(start(FAR, run_dir, f"tcp://127.0.0.1:{between.port}"), timeout_s=90)
            assert between.cuts == CUT
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
    assert steps == list(range(POINTS))
