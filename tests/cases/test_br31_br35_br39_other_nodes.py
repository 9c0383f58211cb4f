"""BR-31, BR-35 and BR-39 between nodes: over TCP with keys the same holds as over ipc."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from itertools import count
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, run, scalars, start
from far_ranks import ELSEWHERE
from real_runs import fastest_s

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory

RANK_0 = """
import sys
import unilab_metrics as um

publisher = um.init(
    algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=sys.argv[1], bind="tcp://127.0.0.1"
)
publisher.point("start", 0.0, step=0)
sys.stdin.readline()
assert publisher.close(90), publisher.errors
"""

AT_ONCE = (
    ELSEWHERE
    + """
import sys
import unilab_metrics as um

publisher = um.connect(role="evaluator", run_dir=sys.argv[1])
for step in range(100):
    publisher.point(f"point/{sys.argv[2]}", step / 3, step=step)
assert publisher.close(90), publisher.errors
assert publisher._shipper._connection._route.ingest.startswith("tcp://")
"""
)


def check_starts(run_dir: Path, times: int) -> None:
    training = start(RANK_0, run_dir)
    aggregator_pid(run_dir)
    for n in range(times):
        run(AT_ONCE, run_dir, str(n))
    finish(training, say="\n")
    ended(run_dir)
    found = scalars(run_dir)
    expected = [(step, pytest.approx(step / 3)) for step in range(100)]
    assert {tag: found.pop(tag) for tag in sorted(found) if tag.startswith("point/")} == {
        f"point/{n}": expected for n in range(times)
    }


def test_two_starts_elsewhere_lose_nothing_sent_right_after_init(run_dir: Path) -> None:
    check_starts(run_dir, 2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_twenty_starts_elsewhere_lose_nothing_sent_right_after_init(run_dir: Path) -> None:
    check_starts(run_dir, 20)


UNSENT = (
    ELSEWHERE
    + """
import sys, time
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1], rank=1, world_size=2)
for step in range(1000):
    publisher.point("point", float(step), step=step)
deadline_s = time.monotonic() + 20
while not publisher._shipper.bus_seen and time.monotonic() < deadline_s:
    time.sleep(0.01)
time.sleep(0.3)
print(time.monotonic_ns(), publisher.unsent, flush=True)
assert not publisher.close(0.5)
"""
)


def test_a_dead_peer_elsewhere_does_not_hold_up_the_exit(tmp_path: Path) -> None:
    places = (tmp_path / f"run-{n}" for n in count())
    assert fastest_s(lambda: exit_s(next(places)), 3.0) < 3.0


def exit_s(run_dir: Path) -> float:
    """How long a rank whose peer is dead takes to close and to end."""
    run_dir.mkdir()
    bus_dir = private_directory(bus_directory(run_dir))
    server = keys.prepare_keys(bus_dir)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    there = f"tcp://127.0.0.1:{port}"
    rendezvous.write(
        bus_dir,
        ConnectionFile(
            run_dir=os.fspath(run_dir), journal="00" * 16, pid=1, started_unix_ns=1,
            boot_id="yet another", host="gone", ingest="ipc:///nowhere/i",
            announce="ipc:///nowhere/o", fetch="ipc:///nowhere/a", tcp_ingest=there,
            tcp_announce=there, tcp_fetch=there, server_key=server.public,
        ),
    )  # fmt: skip
    training = start(UNSENT, run_dir)
    assert training.stdout is not None
    logged_ns, unsent = map(int, training.stdout.readline().split())
    _, errors = training.communicate(timeout=60)
    took_s = (time.monotonic_ns() - logged_ns) / 1e9
    assert training.returncode == 0, errors
    assert unsent >= 1000
    assert re.search(r"\d{4} unsent: ", errors), errors
    return took_s


FORKS = (
    ELSEWHERE
    + """
import json, multiprocessing, sys
import unilab_metrics as um

def emit(publisher, tag, first):
    for step in range(first, first + 10):
        publisher.point(tag, float(step), step=step)

def child(connection):
    own = um.connect(role="evaluator", instance=2, run_dir=sys.argv[1])
    emit(own, "child", 0)
    connection.send([own.close(90), own.dropped])

publisher = um.connect(role="evaluator", instance=1, run_dir=sys.argv[1])
emit(publisher, "parent", 0)
context = multiprocessing.get_context("fork")
ours, theirs = context.Pipe()
process = context.Process(target=child, args=(theirs,))
process.start()
answer = ours.recv()
process.join()
emit(publisher, "parent", 10)
assert publisher.close(90), publisher.errors
print(json.dumps([process.exitcode, answer, publisher.dropped]))
"""
)


def test_a_fork_elsewhere_breaks_and_doubles_nothing(run_dir: Path) -> None:
    training = start(RANK_0, run_dir)
    aggregator_pid(run_dir)
    exit_code, answer, dropped = json.loads(run(FORKS, run_dir))
    assert (exit_code, answer, dropped) == (0, [True, {}], {})
    finish(training, say="\n")
    ended(run_dir)
    found = scalars(run_dir)
    assert found["parent"] == [(step, float(step)) for step in range(20)]
    assert found["child"] == [(step, float(step)) for step in range(10)]
