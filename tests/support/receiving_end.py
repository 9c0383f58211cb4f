"""The aggregator's side of one source, in the test's own thread: accept rule and answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from unilab_metrics.storage.records import scan
from unilab_metrics.transport import sockets
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import RecordKind, decode_payload, decode_upward, encode_message
from unilab_schema.control import Batch, Cursor, Epoch, Hello, Reject
from unilab_schema.frames import IterationFrame, Layout, ReportFrame, SparseFrame, TagNames


class ReceivingEnd:
    """Takes what a shipper sends while :meth:`serve` runs; answers with a Cursor.

    ``swallow``: batches with records that are lost on the way. ``durable_lag``: how far the disk is behind the cursor. ``reject``: answer with this
    instead. ``mute``: do not answer. ``unknown``: sources must say Hello first.
    """

    def __init__(
        self, directory: Path, *, counter: int = 1, cursor: int = 0, name: str = "in"
    ) -> None:
        self.epoch = Epoch(b"j" * 16, counter)
        self.cursor = cursor
        self.durable_lag = 0
        self.window = 512
        self.reject: Reject | None = None
        self.mute = False
        self.swallow = 0
        self.closed = False
        self.awaited = ""
        self.hellos: list[Hello] = []
        self.batches: list[Batch] = []
        self.payloads: list[tuple[int, int, Any]] = []
        self.pings = 0
        self.duplicates = 0
        self.rewinds = 0
        self._greeted = False
        self.endpoint = f"ipc://{directory / name}"
        self._context = sockets.context()
        self._socket = sockets.ingest(self._context, self.endpoint)

    def find_bus(self) -> ConnectionFile:
        return ConnectionFile(
            run_dir="/run",
            journal="6a" * 16,
            pid=1,
            started_unix_ns=0,
            boot_id="boot",
            host="host",
            ingest=self.endpoint,
            announce="",
            fetch="",
        )

    def serve(self, until: Callable[[], object], timeout_s: float = 10.0) -> None:
        """Answer until ``until()`` is true; fails the test after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while not until():
            assert time.monotonic() < deadline, f"cursor {self.cursor}, {len(self.batches)} batches"
            if self._socket.poll(20):
                peer, data = self._socket.recv_multipart()
                self._take(peer, data)

    def serve_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.serve(lambda: time.monotonic() >= end, seconds + 5.0)

    def _take(self, peer: bytes, data: bytes) -> None:
        message = decode_upward(data)
        rewind = False
        if self.swallow and isinstance(message, Batch) and message.records:
            self.swallow -= 1
            return
        if isinstance(message, Hello):
            self.hellos.append(message)
            self._greeted = self.reject is None
        elif not self._greeted:
            self._answer(peer, Reject("unknown_source", "say Hello"))
            return
        else:
            rewind = self._accept(message)
        if self.reject is not None:
            self._answer(peer, self.reject)
        else:
            self._answer(peer, self._cursor(rewind=rewind))

    def _accept(self, batch: Batch) -> bool:
        if not batch.records:
            self.pings += 1
            self.batches.append(batch)
            return False
        self.batches.append(batch)
        found = scan(batch.records)
        for record in found.records:
            payload = decode_payload(record.kind, record.payload)
            gap = record.kind == RecordKind.GAP and payload.first <= self.cursor + 1
            if record.sequence == 0:
                self.payloads.append((0, record.kind, payload))
            elif record.sequence <= self.cursor:
                self.duplicates += 1
            elif record.sequence == self.cursor + 1 or gap:
                self.cursor = record.sequence
                self.payloads.append((record.sequence, record.kind, payload))
            else:
                self.rewinds += 1
                return True
        return bool(found.tail_reason)

    def _cursor(self, *, rewind: bool = False) -> Cursor:
        durable = max(self.cursor - self.durable_lag, 0)
        return Cursor(
            self.epoch,
            self.cursor,
            durable,
            self.window,
            time.monotonic_ns(),
            time.time_ns(),
            rewind,
            self.closed,
            awaited=self.awaited,
        )

    def _answer(self, peer: bytes, message: Any) -> None:
        if not self.mute:
            self._socket.send_multipart([peer, encode_message(message)], zmq.NOBLOCK)

    def frames(self) -> list[Any]:
        """Decoded payloads that carry a sequence, without layouts."""
        hidden = (RecordKind.LAYOUT, RecordKind.TAG_NAMES)
        return [p for sequence, kind, p in self.payloads if sequence and kind not in hidden]

    def values(self) -> list[dict[str, float]]:
        """Iterations and reports in order, as tags with their means."""
        return decode_values(self.payloads)

    def close(self) -> None:
        sockets.terminate(self._context, [self._socket])


def decode_values(payloads: list[tuple[int, int, Any]]) -> list[dict[str, float]]:
    layouts: dict[int, tuple[str, ...]] = {}
    names: dict[int, str] = {}
    parts: list[tuple[str, ...]] = []
    result: list[dict[str, float]] = []
    for _, _, payload in payloads:
        if isinstance(payload, Layout):
            if payload.part == 0:
                parts.clear()
            parts.append(payload.tags)
            layouts[payload.layout] = tuple(tag for part in parts for tag in part)
        elif isinstance(payload, TagNames):
            names.update(enumerate(payload.tags, payload.first))
        elif isinstance(payload, IterationFrame | ReportFrame | SparseFrame):
            if isinstance(payload, SparseFrame):
                numbers = np.frombuffer(payload.tags, "<u4").tolist()
                tags = tuple(names[number] for number in numbers)
            else:
                tags = layouts[payload.layout]
            totals = np.frombuffer(payload.values, "<f8").tolist()
            assert len(totals) == len(tags)
            if payload.weights:
                weights = np.frombuffer(payload.weights, "<f8").tolist()
                totals = [t / w for t, w in zip(totals, weights, strict=True)]
            result.append(dict(zip(tags, totals, strict=True)))
    return result
