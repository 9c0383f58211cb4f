"""A run whose aggregator is the test: a history on disk, announcements, a lease."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from tensorboard.backend.event_processing.event_accumulator import (
    DEFAULT_SIZE_GUIDANCE,
    EventAccumulator,
)

from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import (
    SegmentHeader,
    SegmentWriter,
    encode_segment_header,
    segment_name,
)
from unilab_metrics.transport import rendezvous, sockets
from unilab_schema.codec import KIND_OF, decode_request, encode_message, encode_payload
from unilab_schema.control import BackendStatus, Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import BackendProgress
from unilab_schema.updates import AttemptOpened, RunEnded, Update, UpdateLayout

JOURNAL = bytes(range(16))
RUN = RunInfo("sac", step_axis="env_steps")
PATIENCE_S = 30.0
"""Of a test, and no promise: a process that has to start takes seconds on a busy machine."""
TAGS = ("Loss/actor", "Train/iteration", "Terminal/num_envs")


class ToyRun:
    """A history on disk, and an aggregator's sockets and lease if asked for."""

    def __init__(self, run_dir: Path, sockets_directory: Path) -> None:
        self.run_dir = run_dir
        self.bus = private_directory(rendezvous.bus_directory(run_dir))
        self._endpoint = f"ipc://{sockets_directory}"
        self._segment = SegmentWriter.create(self.bus / segment_name("history", 1, 0))
        self.epoch = Epoch(JOURNAL, 1)
        self._segment.append(encode_segment_header(SegmentHeader(1, "history", self.epoch, 0)))
        layout = encode_payload(UpdateLayout(0, TAGS))
        self._segment.append(encode_record(KIND_OF[UpdateLayout], 0, layout))
        self.update = 0
        self.iteration = 0
        self.statuses: list[BackendStatus] = []
        self._lease: Lease | None = None
        self._context: zmq.Context[Any] | None = None
        self._sockets: list[zmq.Socket[bytes]] = []
        self.append(AttemptOpened(1, 1, RUN))

    def append(self, entry: Any) -> None:
        self.update += 1
        self._segment.append(
            encode_record(KIND_OF[type(entry)], self.update, encode_payload(entry))
        )

    def updates(self, count: int) -> None:
        for _ in range(count):
            self.iteration += 1
            values = struct.pack("<3d", self.iteration / 3, self.iteration, 8.0)
            steps = self.iteration * 32
            self.append(Update(1, self.iteration, steps, time.time_ns(), 0, 0.0, 1, 1, 0, values))

    def end(self) -> None:
        self.append(RunEnded(1, "completed", time.time_ns()))

    def start_aggregator(self) -> None:
        self._lease = Lease.create(self.bus, rendezvous.AGGREGATOR_LEASE, b"")
        self._context = sockets.context()
        announce, fetch = f"{self._endpoint}/out", f"{self._endpoint}/ask"
        self._sockets = [
            sockets.announce(self._context, announce),
            sockets.serve(self._context, fetch),
        ]
        rendezvous.write(
            self.bus,
            rendezvous.ConnectionFile(
                run_dir=str(self.run_dir),
                journal=JOURNAL.hex(),
                pid=os.getpid(),
                started_unix_ns=1,
                boot_id=boot_id(),
                host="here",
                ingest=f"{self._endpoint}/in",
                announce=announce,
                fetch=fetch,
            ),
        )

    def announce(self, *, durable: int | None = None, ended: str | None = None) -> None:
        update = self.update
        head = Head(
            self.epoch,
            update,
            update if durable is None else durable,
            1,
            RUN,
            str(self.run_dir),
            (),
            tuple(self.statuses[-1:]),
            0,
            0,
            ended,
        )
        self._sockets[0].send(encode_message(head))

    def send_raw(self, data: bytes) -> None:
        self._sockets[0].send(data)

    def hear(self) -> None:
        try:
            while True:
                _, data = self._sockets[1].recv_multipart(zmq.NOBLOCK)
                request = decode_request(data)
                assert isinstance(request, BackendProgress)
                self.statuses.append(request.status)
        except zmq.Again:
            pass

    def stop_aggregator(self) -> None:
        if self._context is not None:
            sockets.terminate(self._context, self._sockets)
        if self._lease is not None:
            self._lease.release()
        self._context, self._lease = None, None

    def close(self) -> None:
        self.stop_aggregator()
        self._segment.close()


def wait_for(condition: Callable[[], Any], each: Callable[[], Any] = lambda: None) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        each()
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.02)


def points(run: ToyRun, tag: str = "Train/iteration") -> list[tuple[int, float]]:
    reader = EventAccumulator(
        str(run.run_dir), size_guidance=dict.fromkeys(DEFAULT_SIZE_GUIDANCE, 0)
    ).Reload()
    if tag not in reader.Tags()["scalars"]:
        return []
    return [(event.step, event.value) for event in reader.Scalars(tag)]


def expected(count: int) -> list[tuple[int, float]]:
    return [(32 * n, float(n)) for n in range(1, count + 1)]
