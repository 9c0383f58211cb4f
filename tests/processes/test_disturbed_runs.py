"""Runs that are stopped, told to end, and lied to in every order lose nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
import zmq
from case_runs import aggregator_pid, ended, updates
from fault_oracle import compare
from fault_player import finish
from fault_runs import complaints
from fault_training import FaultTraining
from real_runs import fastest_s, until
from steered_ranks import iterations, steered, told

from unilab_metrics.storage.records import encode_record
from unilab_metrics.transport import rendezvous, sockets
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.codec import RecordKind, encode_message
from unilab_schema.control import Batch, Hello
from unilab_schema.identity import Identity, RunInfo, SourceKey

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

EVERYBODY = (
    "learner-0", "learner-1", "collector-0", "collector-1", "aggregator", "writer", "sidecar",
)  # fmt: skip


@pytest.mark.parametrize(("seed", "seconds"), [(1, 0.5), (3, 6.5)])
def test_everybody_stops_and_goes_on_in_any_order(
    tmp_path: Path, seed: int, seconds: float
) -> None:
    chance = random.Random(seed)
    with FaultTraining(tmp_path / "t", sidecar=True) as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        training.until(training.is_publishing)
        training.go_on(0.5)
        pids = {place: training.pid(place) for place in EVERYBODY}
        for number, pause_s in ((signal.SIGSTOP, 0.3), (signal.SIGCONT, 0.5)):
            for place in chance.sample(EVERYBODY, len(EVERYBODY)):
                pid = pids[place]
                assert pid is not None
                os.kill(pid, number)
                training.go_on(chance.random() * pause_s)
            training.go_on(seconds)
        finish(training)
        assert complaints(training, compare(training)) == []


def test_an_aggregator_that_is_told_to_end_again_and_again_loses_nothing(tmp_path: Path) -> None:
    with FaultTraining(tmp_path / "t") as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        training.until(training.is_publishing)
        training.go_on(0.5)
        for _ in range(3):
            training.send(signal.SIGTERM, "aggregator")
            training.go_on(0.3)
        training.begin_end()
        for _ in range(3):
            training.send(signal.SIGTERM, "aggregator", "writer")
            training.go_on(0.1)
        finish(training)
        assert complaints(training, compare(training)) == []


@pytest.mark.parametrize("how", ["removed", "garbage"])
def test_ranks_that_come_again_find_a_run_whose_connection_file_was_spoilt(
    tmp_path: Path, how: str
) -> None:
    with FaultTraining(tmp_path / "t") as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        training.until(training.is_publishing)
        training.go_on(0.5)
        path = bus_directory(training.run_dir) / "bus.json"
        whole = path.read_bytes()

        def spoil() -> None:
            if how == "removed":
                path.unlink()
            else:
                path.write_text("{")

        def back_s() -> float:
            # It is looked at once a second: not just after that, when it is back from before.
            training.go_on(0.4)
            began_s = time.monotonic()
            spoil()
            training.until(lambda: path.exists() and path.read_bytes() == whole)
            return time.monotonic() - began_s

        assert fastest_s(back_s, 1.0) < 1.0
        spoil()
        training.kill("collector-0", "learner-1")
        training.go_on(2.0)
        finish(training)
        assert "it is in place again" in (path.parent / "aggregator.log").read_text()
        assert complaints(training, compare(training)) == []


@pytest.mark.parametrize("world_size", [1, 5])
def test_what_an_attempt_has_left_is_its_own_whatever_the_next_ones_world(
    tmp_path: Path, world_size: int
) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 3) as ranks:
        for rank in ranks:
            rank.log(0, 4)
        until(lambda: len(iterations(run_dir)) == 5, 30.0)
        aggregator = aggregator_pid(run_dir)
        os.kill(aggregator, signal.SIGSTOP)
        for rank in ranks:
            rank.log(5, 9)
        for rank in ranks:
            rank.kill()
        os.kill(aggregator, signal.SIGKILL)
    with steered(run_dir, world_size) as ranks:
        for rank in ranks:
            rank.log(5, 8)
        for rank in reversed(ranks):
            rank.tell("close 30")
        for rank in reversed(ranks):
            assert rank.process.communicate(timeout=60)[0].startswith("close True")
    ended(run_dir)
    found = [
        (update.attempt, update.iteration, update.ranks_reported, update.ranks_expected)
        for update, values in updates(run_dir)
        if "Loss/value" in values
    ]
    assert found == [
        *((1, k, 3, 3) for k in range(10)),
        *((2, k, world_size, world_size) for k in range(5, 9)),
    ]
    assert told(run_dir, "warning") == []


def test_nonsense_of_64_admitted_sources_at_once_ends_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    chance = random.Random(1)
    with steered(run_dir, 1) as (zero,):
        zero.log(0)
        until(lambda: len(iterations(run_dir)) == 1, 30.0)
        aggregator = psutil.Process(aggregator_pid(run_dir))
        before_bytes = aggregator.memory_info().rss
        context = sockets.context()
        liars = [_liar(context, run_dir, number) for number in range(64)]
        try:
            deadline_s = time.monotonic() + 4
            count = 1
            while time.monotonic() < deadline_s or count <= 20:
                for number, liar in enumerate(liars):
                    if liar.poll(0, zmq.POLLOUT):
                        liar.send(encode_message(_nonsense(chance, number)), zmq.NOBLOCK)
                    while liar.poll(0):
                        liar.recv()
                zero.log(count)
                count += 1
            until(lambda: len(iterations(run_dir)) == count, 30.0)
        finally:
            sockets.terminate(context, liars)
        assert aggregator.memory_info().rss - before_bytes < 100e6
        # They are of another node, so the run waits for them, and says so.
        assert "have not ended" in zero.end("close 5")
        aggregator.kill()


def _liar(context: zmq.Context[zmq.Socket[bytes]], run_dir: Path, number: int) -> zmq.Socket[bytes]:
    liar = sockets.dealer(context, rendezvous.read(bus_directory(run_dir)).ingest)
    assert liar.poll(30_000, zmq.POLLOUT)
    spool = f"/nowhere/{number}"
    identity = Identity(
        SourceKey(number + 1, "collector"), number.to_bytes(16, "big"), 1, "node", "far", spool,
        f"{spool}/lease", 1, 1, 1, RunInfo(),
    )  # fmt: skip
    liar.send(encode_message(Hello(identity, 1, 10**6, 0, time.time_ns())))
    return liar


def _nonsense(chance: random.Random, number: int) -> Batch:
    kind, sequence = chance.choice(list(RecordKind)), chance.choice([0, 1, 2, 2**63, 2**64 - 1])
    record = encode_record(kind, sequence, chance.randbytes(chance.randrange(2000)))
    records = bytearray(record * chance.randrange(1, 5))
    if chance.random() < 0.5:
        records[chance.randrange(len(records))] ^= 0xFF
    watermark = chance.choice([0, -5, 2**62, 2**63 - 1])
    return Batch(number.to_bytes(16, "big"), watermark, 0, 0, bytes(records))
