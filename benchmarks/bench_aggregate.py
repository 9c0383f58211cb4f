"""How many scalars per second one aggregator takes in, reduces, journals and announces.

A feeder process plays 64 learner ranks over 64 ipc sockets, with batches encoded beforehand,
against a real aggregator process with its journal on disk. Beside it, in the same run: the
same frames through the pure core alone, without alerts, with the alerts of every run and with a
rule of a user's over all tags; a bare numpy mean over the same values as the floor, and the answer
to a viewer that asks for every rank's values. Run: ``python benchmarks/bench_aggregate.py [--ranks 64] [--iterations 600]``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zmq

from unilab_metrics.aggregate.announcing.rank_table import Moment, Told, rank_values
from unilab_metrics.aggregate.folding.deciding import Decider
from unilab_metrics.aggregate.folding.entries import AcceptedBatch, AlertRules, SourceJoined
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.transport import rendezvous, sockets
from unilab_schema.codec import (
    RecordKind,
    decode_downward,
    decode_head,
    encode_message,
    encode_payload,
)
from unilab_schema.control import Batch, Cursor, Epoch, Hello
from unilab_schema.frames import End, IterationFrame, Layout
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.requests import Ranks

TAGS = 60
FRAMES_PER_BATCH = 32
WINDOW_FRAMES = 512
RULE = "Bench/* > 100 for 30 s"


def identity(rank: int, ranks: int, lease: Path) -> Identity:
    """A learner of this process; its spool is none that an aggregator would look into."""
    incarnation = rank.to_bytes(4, "big") + os.urandom(12)
    now = time.monotonic_ns()
    run = RunInfo(algorithm="bench", step_axis="iteration", world_size=ranks)
    return Identity(
        SourceKey(rank, "learner"),
        incarnation,
        os.getpid(),
        "bench",
        boot_id(),
        os.fspath(lease.parent),
        os.fspath(lease),
        now,
        time.time_ns(),
        ranks,
        run,
    )


def batches(rank: int, iterations: int) -> list[bytes]:
    """The rank's records, in batches; 60 tags per iteration."""
    rng = np.random.default_rng(rank)
    tags = tuple(f"Bench/tag_{number:02d}" for number in range(TAGS))
    records = [encode_record(RecordKind.LAYOUT, 1, encode_payload(Layout(0, tags)))]
    for k in range(iterations):
        values = rng.standard_normal(TAGS).astype("<f8").tobytes()
        frame = encode_payload(IterationFrame(0, k, k, k, k, values))
        records.append(encode_record(RecordKind.ITERATION, k + 2, frame))
    end = encode_payload(End("completed", 0, 0))
    records.append(encode_record(RecordKind.END, iterations + 2, end))
    return [
        b"".join(records[at : at + FRAMES_PER_BATCH])
        for at in range(0, len(records), FRAMES_PER_BATCH)
    ]


def through_the_core(ranks: int, iterations: int, lease: Path, alerts: AlertRules | None) -> float:
    """Scalars per second of processor time of the pure core: no socket, no file. ``alerts``: ``None`` for none, as in
    journals of older versions."""
    state = AggregatorState()
    if alerts is not None:
        state.handle(alerts)
    decider = Decider(state)
    fed = [batches(rank, iterations) for rank in range(ranks)]
    for rank in range(ranks):
        state.handle(SourceJoined(rank, identity(rank, ranks, lease)))
    started = time.process_time()
    for number in range(len(fed[0])):
        for rank in range(ranks):
            records = scan(fed[rank][number]).records
            state.handle(AcceptedBatch(rank, 0, fed[rank][number]), records)
        while (seal := decider.due(0, 0)) is not None:
            state.handle(seal)
    seconds = time.process_time() - started
    if state.data.iterations_sealed != iterations:
        raise SystemExit(f"{state.data.iterations_sealed} of {iterations} iterations sealed")
    return ranks * iterations * TAGS / seconds


def with_alerts(ranks: int, iterations: int, lease: Path) -> list[float]:
    """The pure core without alerts, with those of every run, and with a rule too: the best of
    three each, by turns."""
    kinds = (None, AlertRules((), 0, 0), AlertRules((RULE,), 0, 0))
    rounds = [[through_the_core(ranks, iterations, lease, kind) for kind in kinds] for _ in "123"]
    return [max(rates) for rates in zip(*rounds, strict=True)]


def table_of_ranks(ranks: int, lease: Path) -> tuple[float, float]:
    """Milliseconds until the answer about all ranks and tags is encoded, and its kilobytes."""
    state = AggregatorState()
    for rank in range(ranks):
        state.handle(SourceJoined(rank, identity(rank, ranks, lease)))
        state.handle(AcceptedBatch(rank, 0, batches(rank, 2)[0]))
    moment = Moment(Epoch(b"", 0), time.monotonic_ns(), boot_id())
    best_s, size = float("inf"), 0
    for _ in range(20):
        started = time.perf_counter()
        told = [Told(s, source_status(s, Peer(), moment.mono_ns)) for s in state.data.sources]
        size = len(encode_message(rank_values(state, Ranks(1), told, moment)))
        best_s = min(best_s, time.perf_counter() - started)
    return best_s * 1e3, size / 1e3


def numpy_floor(ranks: int, iterations: int) -> float:
    """Scalars per second of unpacking and a mean alone."""
    packed = [np.random.default_rng(r).standard_normal(TAGS).tobytes() for r in range(ranks)]
    started = time.perf_counter()
    for _ in range(iterations):
        np.frombuffer(b"".join(packed)).reshape(ranks, TAGS).mean(axis=0)
    return ranks * iterations * TAGS / (time.perf_counter() - started)


def over_sockets(ranks: int, iterations: int, directory: Path) -> tuple[float, float]:
    """Scalars per second of a real aggregator, and its CPU microseconds per frame."""
    run_dir = directory / "run"
    run_dir.mkdir()
    rendezvous.bus_directory(run_dir).mkdir(mode=0o700)
    helper = subprocess.Popen(
        [sys.executable, "-m", "unilab_metrics", "aggregate", os.fspath(run_dir)],
        stdout=subprocess.DEVNULL,
        cwd=directory,
    )
    lease = Lease.create(directory, "lease", b"")
    try:
        file = wait_for_bus(rendezvous.bus_directory(run_dir))
        context = sockets.context()
        listen = sockets.listen(context, file.announce)
        feeders = [sockets.dealer(context, file.ingest) for _ in range(ranks)]
        try:
            identities = [identity(rank, ranks, lease.path) for rank in range(ranks)]
            fed = [batches(rank, iterations) for rank in range(ranks)]
            for feeder, who in zip(feeders, identities, strict=True):
                feeder.poll(5000, zmq.POLLOUT)
                feeder.send(encode_message(Hello(who, 1, 0, 0, 0)))
            for feeder in feeders:
                feeder.recv()
            cpu_before = cpu_seconds(helper.pid)
            started = time.perf_counter()
            feed(feeders, identities, fed)
            while decode_head(listen.recv()).update < iterations + 1:
                pass
            seconds = time.perf_counter() - started
            cpu = cpu_seconds(helper.pid) - cpu_before
        finally:
            sockets.terminate(context, [*feeders, listen])
        frames = ranks * iterations
        return frames * TAGS / seconds, cpu / frames * 1e6
    finally:
        lease.release()
        helper.send_signal(signal.SIGTERM)
        helper.wait(60)


def feed(
    feeders: list[zmq.Socket[bytes]], identities: list[Identity], fed: list[list[bytes]]
) -> None:
    """Send every batch as soon as the window allows; ranks advance together."""
    cursors = [0] * len(feeders)
    sent = [0] * len(feeders)
    poller = zmq.Poller()
    for feeder in feeders:
        poller.register(feeder, zmq.POLLIN)
    rank_of = {feeder: rank for rank, feeder in enumerate(feeders)}
    last = len(fed[0])
    while min(sent) < last:
        for rank, feeder in enumerate(feeders):
            in_flight = sent[rank] * FRAMES_PER_BATCH - cursors[rank]
            if sent[rank] < last and in_flight + FRAMES_PER_BATCH <= WINDOW_FRAMES:
                message = Batch(identities[rank].incarnation, 0, 0, 0, fed[rank][sent[rank]])
                try:
                    feeder.send(encode_message(message), zmq.NOBLOCK)
                except zmq.Again:
                    continue
                sent[rank] += 1
        for feeder, _ in poller.poll(1):
            while True:
                try:
                    answer = decode_downward(feeder.recv(zmq.NOBLOCK))
                except zmq.Again:
                    break
                if isinstance(answer, Cursor):
                    cursors[rank_of[feeder]] = answer.cursor


def wait_for_bus(bus_dir: Path) -> rendezvous.ConnectionFile:
    """The connection file, once the aggregator has written it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return rendezvous.read(bus_dir)
        except ConnectionFileError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print one line per repetition."""
    parser = argparse.ArgumentParser(description="Aggregator intake, against numpy alone.")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.ranks} ranks, {options.iterations} iterations, {TAGS} tags")
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory(prefix="um-bench-") as name:
            directory = Path(name)
            floor = numpy_floor(options.ranks, options.iterations)
            core, own, rule = with_alerts(options.ranks, options.iterations, directory / "none")
            process, cpu_us = over_sockets(options.ranks, options.iterations, directory)
            answer_ms, answer_kb = table_of_ranks(options.ranks, directory / "none")
        print(
            f"numpy mean alone {floor / 1e6:7.1f} M/s | pure core {core / 1e6:6.2f} M/s, "
            f"{core / own:.3f} times as long with alerts, {core / rule:.3f} with a rule too | "
            f"process over sockets {process / 1e6:6.2f} M/s, {cpu_us:5.1f} us CPU per frame, "
            f"{process / floor:6.3f} of the floor | every rank's values {answer_ms:5.2f} ms, "
            f"{answer_kb:.0f} kB"
        )


if __name__ == "__main__":
    main()
