"""What one ``log()`` of 60 values costs the training loop, beside what it is made of.

    .venv/bin/python benchmarks/bench_publish.py [--seconds 4] [--hot-calls 20000]

Two ways of calling: hot (back to back) and in a loop of 10 ms, where caches have gone cold.
All contenders run in the same process and in turns, so that a busy machine hits all of them:

- ``log()``: the publisher with its spool, shipper thread and a receiver in another process;
- the floor: the dict through msgspec and a ZeroMQ PUSH in the calling thread, which loses
  frames and holds no promise;
- a bare ``os.write`` of the same bytes to the spool's file system;
- tensorboardX: 60 ``SummaryWriter.add_scalar`` into its queue.

Figures are ratios between lines of one run, not absolute promises.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.transport import sockets
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import RecordKind, decode_upward, encode_message
from unilab_schema.control import Batch, Cursor, Epoch
from unilab_schema.identity import RunInfo, SourceKey

TAGS = 60
TICK_S = 0.01
TURN_CALLS = 50

Call = Callable[[int], object]

_numbers = count()
"""Iterations, steps: the same source for every contender."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of publishing 60 values.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of the 10 ms loop, each line")
    parser.add_argument("--hot-calls", type=int, default=20_000)
    parser.add_argument("--receive", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(*options.receive)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="um-bench-")))
        calls = stack.enter_context(contenders(folder))
        for call in calls.values():
            for _ in range(200):
                call(next(_numbers))
        hot = {name: measure_hot(call, options.hot_calls, name) for name, call in calls.items()}
        looped = measure_loop(calls, options.seconds)
        print_table(hot, looped)


@contextmanager
def contenders(folder: Path) -> Iterator[dict[str, Call]]:
    """The lines of the table, by name; the first one is ours."""
    values = {f"Loss/member_{n}": n * 1.1 for n in range(TAGS)}
    with ExitStack() as stack:
        spools = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=spool_root()))
        ingest, pull = f"ipc://{folder}/ingest", f"ipc://{folder}/pull"
        receiver = subprocess.Popen(
            [sys.executable, __file__, "--receive", ingest, pull], stdin=subprocess.DEVNULL
        )
        stack.callback(receiver.wait)
        stack.callback(receiver.terminate)
        while not (folder / "pull").exists():
            time.sleep(0.01)

        bus = ConnectionFile(
            run_dir="", journal="", pid=0, started_unix_ns=0, boot_id="", host="",
            ingest=ingest, announce="", fetch="",
        )  # fmt: skip
        publisher = open_publisher(
            SourceKey(0, "learner"),
            RunInfo("sac"),
            launch_directory=Path(spools) / "launch",
            find_bus=lambda: bus,
        )
        stack.callback(publisher.close, 10.0)

        context = sockets.context()
        push = context.socket(zmq.PUSH)
        push.set(zmq.SNDHWM, 100_000)
        push.set(zmq.LINGER, 0)
        push.connect(pull)
        stack.callback(sockets.terminate, context, [push])
        encoder = msgspec.msgpack.Encoder()

        packed = np.arange(TAGS, dtype="<f8").tobytes()
        record = encode_record(RecordKind.ITERATION, 1, packed + bytes(40))
        fd = os.open(Path(spools) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        stack.callback(os.close, fd)

        calls: dict[str, Call] = {
            "log() of 60 floats": lambda n: publisher.log(values, iteration=n, env_steps=n),
            "msgspec + zmq in the caller": lambda n: push.send(
                encoder.encode((n, values)), zmq.NOBLOCK
            ),
            "bare os.write": lambda _n: os.write(fd, record),
        }
        tensors = tensors_of(values)
        if tensors:
            calls["log() of 60 0-d tensors"] = lambda n: publisher.log(
                tensors, iteration=n, env_steps=n
            )
        writer = summary_writer(folder)
        if writer is not None:
            stack.callback(writer.close)
            calls["60 add_scalar (tensorboardX)"] = lambda n: [
                writer.add_scalar(tag, value, n) for tag, value in values.items()
            ]
        yield calls
        print(f"dropped {publisher.dropped}, not yet received {publisher.unsent}")


def tensors_of(values: dict[str, float]) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        return {}
    return {tag: torch.tensor(value) for tag, value in values.items()}


def summary_writer(folder: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboardX"))


def measure_hot(call: Call, calls: int, name: str) -> np.ndarray:
    calls = calls if "add_scalar" not in name else calls // 20
    costs = np.empty(calls)
    clock = time.perf_counter_ns
    for at, number in zip(range(calls), _numbers, strict=False):
        before = clock()
        call(number)
        costs[at] = clock() - before
    return costs / 1e3


def measure_loop(calls: dict[str, Call], seconds: float) -> dict[str, np.ndarray]:
    """One call per 10 ms, in turns of half a second.

    The first three lines take turns among themselves, because tensorboardX's thread and torch
    would otherwise weigh on whichever line comes after theirs.
    """
    names = list(calls)
    groups = [names[:3], names[3:]]
    found: dict[str, np.ndarray] = {}
    for group in groups:
        found.update(_in_turns({name: calls[name] for name in group}, seconds))
    return found


def _in_turns(calls: dict[str, Call], seconds: float) -> dict[str, np.ndarray]:
    costs: dict[str, list[float]] = {name: [] for name in calls}
    clock = time.perf_counter_ns
    for _ in range(max(int(seconds / (TURN_CALLS * TICK_S)), 1)):
        for name, call in calls.items():
            due = time.perf_counter()
            for _ in range(TURN_CALLS):
                due += TICK_S
                number = next(_numbers)
                time.sleep(max(due - time.perf_counter(), 0.0))
                before = clock()
                call(number)
                costs[name].append((clock() - before) / 1e3)
    return {name: np.array(found) for name, found in costs.items()}


def print_table(hot: dict[str, np.ndarray], looped: dict[str, np.ndarray]) -> None:
    ours = next(iter(hot))
    print(f"{'':32}{'hot p50':>10}{'p99':>10}{'10 ms p50':>12}{'p99':>10}{'hot':>8}{'10 ms':>8}")
    print(f"{'':32}{'µs':>10}{'µs':>10}{'µs':>12}{'µs':>10}{'× ours':>8}{'× ours':>8}")
    base_hot, base_loop = np.median(hot[ours]), np.median(looped[ours])
    for name, costs in hot.items():
        hot_p50, hot_p99 = np.percentile(costs, (50, 99))
        loop_p50, loop_p99 = np.percentile(looped[name], (50, 99))
        print(
            f"{name:32}{hot_p50:10.1f}{hot_p99:10.1f}{loop_p50:12.1f}{loop_p99:10.1f}"
            f"{hot_p50 / base_hot:8.2f}{loop_p50 / base_loop:8.2f}"
        )


def receive(ingest: str, pull: str) -> None:
    """The other process: answers the shipper, swallows what is pushed."""
    context = sockets.context()
    router = sockets.ingest(context, ingest)
    sink = context.socket(zmq.PULL)
    sink.set(zmq.RCVHWM, 100_000)
    sink.bind(pull)
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    poller.register(sink, zmq.POLLIN)
    cursor = 0
    while True:
        ready = dict(poller.poll())
        if router in ready:
            peer, data = router.recv_multipart()
            message = decode_upward(data)
            if isinstance(message, Batch) and message.records:
                cursor = max(r.sequence for r in scan(message.records).records)
            now = time.monotonic_ns()
            answer = Cursor(Epoch(b"b" * 16, 1), cursor, cursor, 512, now, time.time_ns())
            router.send_multipart([peer, encode_message(answer)])
        while sink in ready:
            try:
                sink.recv(zmq.NOBLOCK)
            except zmq.Again:
                break


if __name__ == "__main__":
    main()
