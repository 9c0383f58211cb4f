"""A long run of one learner on paper, its journal and the blocks of both."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sources_on_paper import MS, PaperSource

from unilab_metrics.aggregate.folding.entries import Seal, SourceJoined
from unilab_metrics.aggregate.folding.packed import unpack_values
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import BinBlock


class LongRun:
    """A learner on paper, its journal and the blocks of both."""

    def __init__(self, directory: Path) -> None:
        identity = Identity(
            SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0, 1, RunInfo("sac")
        )
        self.directory = directory
        self.source = PaperSource(0, identity)
        self.values: list[float] = []
        self.start()
        self.fold(SourceJoined(0, identity))

    def start(self) -> None:
        self.journal = Journal(self.directory)
        self.blocks = BlockStore(self.directory, self.journal)

    def stop(self) -> None:
        self.blocks.close()
        self.journal.close()

    def fold(self, *entries: SourceJoined | Seal | object) -> None:
        for entry in entries:
            self.journal.append(entry)  # type: ignore[arg-type]
            published = self.journal.state.handle(entry)  # type: ignore[arg-type]
            self.journal.publish(published)
            self.blocks.add(published)
        self.journal.commit()
        self.blocks.write()

    def iterate(self, count: int, scale: float = 1.0) -> None:
        rng = np.random.default_rng(len(self.values))
        for value in (scale * rng.standard_normal(count)).tolist():
            self.values.append(value)
            k = len(self.values)
            self.fold(
                self.source.iteration(k, {"a": value, "b": math.nan}, t=k, env_steps=2 * k),
                Seal(k, k * MS, k * MS),
            )


def check(block: BinBlock, values: list[float]) -> None:
    at = block.tags.index("a")
    assert unpack_values(block.minimum)[at] == min(values)
    assert unpack_values(block.maximum)[at] == max(values)
    assert unpack_values(block.mean)[at] == pytest.approx(sum(values) / len(values))
    assert unpack_values(block.count)[at] == len(values)
    assert unpack_values(block.latest)[at] == values[-1]
    assert unpack_values(block.not_finite)[at] == 0
