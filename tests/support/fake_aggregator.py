"""A stand-in for the aggregator that speaks the protocol over the real sockets."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import zmq

from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import SegmentHeader, encode_segment_header, segment_name
from unilab_metrics.transport import rendezvous, sockets
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, ConnectionFile
from unilab_schema.codec import RecordKind, decode_request, encode_message, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Fetch, Latest, Snapshot, Updates
from unilab_schema.updates import Update, UpdateLayout

TAGS = ("Loss/actor", "Train/iteration")
LAYOUT = UpdateLayout(0, TAGS)
JOURNAL = b"j" * 16


def update_record(sequence: int, marker: float = 0.0) -> bytes:
    values = np.array([marker, sequence], dtype="<f8").tobytes()
    entry = Update(1, sequence, None, time.time_ns(), time.monotonic_ns(), 0.0, 1, 1, 0, values)
    return encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))


class FakeAggregator:
    """Commits what it is told to, answers fetches, and announces heads, in a thread."""

    def __init__(
        self,
        run_dir: Path,
        endpoints: Path,
        *,
        counter: int = 1,
        journal: bytes = JOURNAL,
        records: list[bytes] | None = None,
        writes_files: bool = False,
    ) -> None:
        self.run_dir = run_dir
        self.records: list[bytes] = list(records or [])
        self.epoch = Epoch(journal, counter)
        self.ended: str | None = None
        self.announced_end: str | None = None
        self.protocol_byte: int | None = None
        self.swallow = 0
        self.slow_above: int | None = None
        """Of how many records a reply takes too long."""
        self.fetches: list[int] = []
        self._bus = private_directory(rendezvous.bus_directory(run_dir))
        self._lease = Lease.create(self._bus, AGGREGATOR_LEASE, b"")
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._muted = threading.Event()
        self._file: Path | None = None
        if writes_files:
            self._file = self._bus / segment_name("history", counter, 0)
            header = SegmentHeader(1, "history", self.epoch, 0)
            layout = encode_record(RecordKind.UPDATE_LAYOUT, 0, encode_payload(LAYOUT))
            self._file.write_bytes(b"".join([encode_segment_header(header), layout, *self.records]))
        stem = f"ipc://{endpoints}/{counter}"
        self._stem = stem
        bound = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bound,))
        self._thread.start()
        assert bound.wait(10)
        rendezvous.write(
            self._bus,
            ConnectionFile(
                run_dir=str(run_dir),
                journal=journal.hex(),
                pid=os.getpid(),
                started_unix_ns=time.time_ns(),
                boot_id=boot_id(),
                host="node",
                ingest=f"{stem}.in",
                announce=f"{stem}.out",
                fetch=f"{stem}.ask",
            ),
        )

    def commit(self, count: int = 1, marker: float = 0.0) -> None:
        first = len(self.records) + 1
        new = [update_record(i, marker) for i in range(first, first + count)]
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(b"".join(new))
        self.records += new
        self._wake.set()

    def end(self, status: str = "completed") -> None:
        self.ended = status
        self._wake.set()

    def mute(self) -> None:
        """Hold the lease, but say nothing, like a stopped process."""
        self._muted.set()

    def unmute(self) -> None:
        self._muted.clear()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(10)
        self._lease.release()

    def _run(self, bound: threading.Event) -> None:
        ctx = sockets.context()
        announce = sockets.announce(ctx, f"{self._stem}.out")
        serve = sockets.serve(ctx, f"{self._stem}.ask")
        bound.set()
        announced_s = 0.0
        while not self._stop.is_set():
            serve.poll(2)
            if self._muted.is_set():
                continue
            due = self._wake.is_set() or time.monotonic() - announced_s > 0.2
            self._wake.clear()
            while announce.poll(0):
                announce.recv(zmq.NOBLOCK)
                due = True
            if due:
                announced_s = time.monotonic()
                head = self._head()
                announce.send(self._encode(head), zmq.NOBLOCK)
                self.announced_end = head.ended
            while serve.poll(0):
                sender, message = serve.recv_multipart(zmq.NOBLOCK)
                reply = self._answer(decode_request(message))
                if reply is not None:
                    serve.send_multipart([sender, self._encode(reply)], zmq.NOBLOCK)
        sockets.terminate(ctx, [announce, serve])

    def _head(self) -> Head:
        last = len(self.records)
        return Head(
            self.epoch, last, last, 1, RunInfo(), str(self.run_dir), (), (),
            time.monotonic_ns(), time.time_ns(), self.ended,
        )  # fmt: skip

    def _answer(self, request: object) -> Updates | Snapshot | None:
        if self.swallow > 0:
            self.swallow -= 1
            return None
        last = len(self.records)
        if isinstance(request, Latest):
            values = np.array([1.5, last], dtype="<f8").tobytes()
            updates = np.array([last, last], dtype="<i8").tobytes()
            return Snapshot(request.request, self.epoch, last, TAGS, values, updates)
        assert isinstance(request, Fetch)
        self.fetches.append(request.after)
        if self.slow_above is not None and min(request.limit, last) > self.slow_above:
            return None
        taken = self.records[request.after : request.after + min(request.limit, 50)]
        after = request.after + len(taken)
        return Updates(request.request, self.epoch, after, (LAYOUT,), b"".join(taken))

    def _encode(self, message: Head | Updates | Snapshot) -> bytes:
        data = bytearray(encode_message(message))
        if self.protocol_byte is not None:
            data[0] = self.protocol_byte
        return bytes(data)
