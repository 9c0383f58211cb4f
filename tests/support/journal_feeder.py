"""A journal that is fed on paper, and what its history must hold then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sources_on_paper import MS, PaperSource

from unilab_metrics.aggregate.folding.entries import Entry, Seal, SourceJoined
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import Update


class Feeder:
    """A learner on paper whose entries go through a journal."""

    def __init__(self) -> None:
        identity = Identity(
            SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0, 1, RunInfo("sac")
        )
        self.joined = SourceJoined(0, identity)
        self.source = PaperSource(0, identity)
        self.last = 0

    def iteration(self, k: int) -> list[Entry]:
        self.last = k
        return [
            self.source.iteration(k, {"a": float(k), "b": k / 3}, t=k),
            Seal(k, k * MS, k * MS),
        ]


def fold(journal: Journal, *entries: Entry) -> None:
    for entry in entries:
        journal.append(entry)
        journal.publish(journal.state.handle(entry))


def synced(journal: Journal, mark: object = True) -> object | None:
    """The mark of a sync, or of the one that runs; raises its error."""
    journal.start_sync(mark)
    while journal.is_syncing:
        done = journal.finished_sync()
        if done is not None:
            return done
    return None


@contextmanager
def opened(directory: Path) -> Iterator[Journal]:
    journal = Journal(directory)
    try:
        yield journal
    finally:
        journal.close()


def history(directory: Path) -> list[tuple[int, int, dict[str, float]]]:
    reader = HistoryReader(directory)
    try:
        return [
            (r.sequence, r.entry.iteration, dict(zip(r.tags, r.values().tolist(), strict=True)))
            for r in reader.poll(100_000)
            if isinstance(r.entry, Update)
        ]
    finally:
        reader.close()


def expected(last: int) -> list[tuple[int, int, dict[str, float]]]:
    # Sequence 1 is the opening of the attempt.
    return [(k + 1, k, {"a": float(k), "b": k / 3}) for k in range(1, last + 1)]
