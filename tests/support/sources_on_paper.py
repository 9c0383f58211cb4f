"""Sources without processes: builds the wal entries that real ones would cause."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unilab_metrics.aggregate.folding.deciding import Decider
from unilab_metrics.aggregate.folding.entries import AcceptedBatch, Entry, SourceGone, SourceJoined
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import KIND_OF, encode_payload
from unilab_schema.frames import End, EventFrame, IterationFrame, Layout, ReportFrame
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import Supplement, Update

MS = 1_000_000


@dataclass
class PaperSource:
    """One source; its methods return the entry of one frame each. Times are milliseconds."""

    index: int
    identity: Identity
    sequence: int = 0
    layouts: dict[tuple[str, ...], int] = field(default_factory=dict)

    def batch(self, *payloads: Any, watermark: int = 0) -> AcceptedBatch:
        data = b""
        for payload in payloads:
            self.sequence += 1
            kind = KIND_OF[type(payload)]
            data += encode_record(kind, self.sequence, encode_payload(payload))
        return AcceptedBatch(self.index, watermark, data)

    def _layout(self, tags: tuple[str, ...]) -> tuple[list[Layout], int]:
        known = self.layouts.get(tags)
        if known is not None:
            return [], known
        number = self.layouts[tags] = len(self.layouts)
        return [Layout(number, tags)], number

    def iteration(
        self,
        k: int,
        values: Mapping[str, float],
        *,
        t: int = 0,
        env_steps: int | None = None,
        more: bool = False,
        already_reduced: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> AcceptedBatch:
        announced, layout = self._layout(tuple(values))
        packed = struct.pack(f"<{len(values)}d", *values.values())
        packed_weights = b""
        if weights is not None:
            packed_weights = struct.pack(f"<{len(values)}d", *(weights[tag] for tag in values))
        frame = IterationFrame(
            layout, k, env_steps, t * MS, t * MS, packed, packed_weights, more, already_reduced
        )
        return self.batch(*announced, frame)

    def report(
        self, values: Mapping[str, float], *, t: int, env_steps: int | None = None
    ) -> AcceptedBatch:
        announced, layout = self._layout(tuple(values))
        packed = struct.pack(f"<{len(values)}d", *values.values())
        return self.batch(*announced, ReportFrame(layout, env_steps, t * MS, t * MS, packed))

    def watermark(self, t: int) -> AcceptedBatch:
        return AcceptedBatch(self.index, t * MS, b"")

    def event(self, kind: str, *, t: int = 0, **data: str | float) -> AcceptedBatch:
        return self.batch(EventFrame(kind, "", t * MS, t * MS, data=dict(data)))

    def end(self, status: str = "completed", *, t: int = 0) -> AcceptedBatch:
        return self.batch(End(status, t * MS, t * MS))


class PaperRun:
    """An aggregator state and the sources that feed it."""

    def __init__(self, **run: Any) -> None:
        self.state = AggregatorState()
        self.decider = Decider(self.state)
        self.run = RunInfo(**run)
        self.published: list[Publication] = []
        self.entries: list[Entry] = []
        self.now = 0

    def join(
        self,
        rank: int,
        role: str = "learner",
        *,
        learners: int = 1,
        instance: int = 0,
        boot: str = "boot",
        started: int = 0,
    ) -> PaperSource:
        index = len(self.state.data.sources)
        identity = Identity(
            SourceKey(rank, role, instance),
            index.to_bytes(16, "big"),
            100 + index,
            "host",
            boot,
            "",
            "",
            started * MS,
            started * MS,
            learners,
            self.run,
        )
        self.fold(SourceJoined(index, identity))
        return PaperSource(index, identity)

    def fold(self, *entries: Entry) -> None:
        for entry in entries:
            self.entries.append(entry)
            self.published += self.state.handle(entry)

    def lose(self, source: PaperSource) -> None:
        self.fold(SourceGone(source.index, "lost", 0, 0))

    def settle(self, advance_ms: int = 0) -> None:
        """Let time pass and take every decision that is due then."""
        self.now += advance_ms * MS
        while (due := self.decider.due(self.now, self.now)) is not None:
            self.fold(due)

    def updates(self) -> list[tuple[Update | Supplement, dict[str, float]]]:
        found: list[tuple[Update | Supplement, dict[str, float]]] = []
        for publication in self.published:
            entry = publication.entry
            if isinstance(entry, Update | Supplement):
                tags = publication.tags
                values = struct.unpack(f"<{len(tags)}d", entry.values)
                found.append((entry, dict(zip(tags, values, strict=True))))
        return found

    def last(self) -> dict[str, float]:
        return self.updates()[-1][1]


def two_learners(**run: str) -> tuple[PaperRun, PaperSource, PaperSource]:
    paper = PaperRun(**run)
    return paper, paper.join(0, learners=2), paper.join(1, learners=2)
