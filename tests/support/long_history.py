"""The history of a run of any length, written at once: updates of some tags, with their blocks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from unilab_metrics.aggregate.journaling.binning import Binner
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import SegmentHeader, encode_segment_header, segment_name
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.codec import KIND_OF, RecordKind, encode_payload
from unilab_schema.control import Epoch
from unilab_schema.frames import EventFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import (
    BLOCK_ENTRIES,
    AttemptOpened,
    EventUpdate,
    RunEnded,
    Update,
    UpdateLayout,
)

S = 1_000_000_000
START_UNIX_NS = 1_770_000_000 * S
TAGS = ("Train/mean_reward", "Loss/critic", "Policy/mean_std", "Perf/total_fps",
        "Perf/iteration_wall_ms", "Train/iteration")  # fmt: skip
EPOCH = Epoch(b"j" * 16, 1)


class LongHistory:
    """Writes the files of ``run_dir`` as an aggregator leaves them. Sequence 1 opens the attempt,
    update ``k`` has sequence ``k + 1``."""

    def __init__(
        self,
        run_dir: Path,
        *,
        tags: tuple[str, ...] = TAGS,
        interval_s: float = 0.1,
        segment_bytes: int = 32 * 1024 * 1024,
        mono_ns: int = 5 * S,
        run: RunInfo | None = None,
        ahead: float = 1.0,
        ranks: int = 1,
    ) -> None:
        """``ahead``: how many times as fast as the slowest of ``ranks`` rank 0 is."""
        self.run_dir = run_dir
        self.bus_dir = private_directory(bus_directory(run_dir))
        self.tags = tags
        self.sequence = 0
        self.iteration = 0
        self.attempt = 1
        self._interval_ns = round(interval_s * S)
        self._segment_bytes = segment_bytes
        self._mono_ns = mono_ns
        self._ahead, self._ranks = ahead, ranks
        self._number = -1
        self._path = self.bus_dir
        self._file = bytearray()
        self._binner = Binner(1)
        self._blocks = bytearray(
            encode_segment_header(SegmentHeader(1, "blocks", EPOCH, 0)),
        )
        self.run = run or RunInfo("sac", "reach", "numpy", "env_steps", None)
        self._begin()
        self.add(AttemptOpened(1, START_UNIX_NS, self.run))

    def value(self, tag: str, k: int) -> float:
        """Of an iteration."""
        if tag == "Train/iteration":
            return float(k)
        place = self.tags.index(tag)
        return math.sin(k / (50 + place)) + k / 1000 + place

    def updates(self, count: int) -> None:
        """That many iterations more."""
        columns = np.arange(len(self.tags))
        for _ in range(count):
            self.iteration += 1
            k = self.iteration
            values = np.array([self.value(tag, k) for tag in self.tags])
            at_ns = k * self._interval_ns
            update = Update(
                self.attempt, k, 256 * k, START_UNIX_NS + at_ns, self._mono_ns + at_ns,
                at_ns / S / self._ahead, self._ranks, self._ranks, 0, values.tobytes(),
            )  # fmt: skip
            self.add(update)
            self._binner.add(update, columns, values)

    def begin_again(self, after_s: float) -> None:
        """Another attempt, a while after the last update."""
        self.attempt += 1
        self._mono_ns += round(after_s * S)
        at_ns = self.iteration * self._interval_ns
        elapsed_s = at_ns / S / self._ahead
        self.add(AttemptOpened(self.attempt, START_UNIX_NS + at_ns, self.run, elapsed_s))

    def event(self, kind: str, text: str) -> None:
        """Something that rank 0 says now."""
        at_ns = self.iteration * self._interval_ns
        frame = EventFrame(kind, text, at_ns, START_UNIX_NS + at_ns, self.iteration, {})
        self.add(EventUpdate(self.attempt, SourceKey(0, "learner"), frame))

    def add(self, entry: Update | AttemptOpened | EventUpdate | RunEnded) -> None:
        """The next entry."""
        if not self._binner.holds(self.sequence + 1):
            self._keep_block()
        self.sequence += 1
        record = encode_record(KIND_OF[type(entry)], self.sequence, encode_payload(entry))
        if len(self._file) + len(record) > self._segment_bytes:
            self.write()
            self._begin()
        self._file += record

    def end(self, status: str = "completed") -> None:
        """The attempt's end."""
        at_ns = self.iteration * self._interval_ns
        self.add(RunEnded(self.attempt, status, START_UNIX_NS + at_ns))

    def write(self) -> Path:
        """Puts everything on the disk; the run's directory."""
        self._path.write_bytes(self._file)
        self._path.chmod(0o600)
        if self.sequence % BLOCK_ENTRIES == 0:
            self._keep_block()
        blocks = self.bus_dir / segment_name("blocks", 1, 0)
        blocks.write_bytes(self._blocks)
        blocks.chmod(0o600)
        return self.run_dir

    def _keep_block(self) -> None:
        for block in self._binner.block(list(self.tags)):
            self._blocks += encode_record(RecordKind.BIN_BLOCK, 0, encode_payload(block))
        self._binner = Binner(self._binner.start + BLOCK_ENTRIES)

    def _begin(self) -> None:
        previous, size = ("", 0) if self._number < 0 else (self._path.name, len(self._file))
        self._number += 1
        self._path = self.bus_dir / segment_name("history", 1, self._number)
        header = SegmentHeader(1, "history", EPOCH, self._number, previous, size)
        self._file = bytearray(encode_segment_header(header))
        layout = encode_payload(UpdateLayout(0, self.tags))
        self._file += encode_record(RecordKind.UPDATE_LAYOUT, 0, layout)
