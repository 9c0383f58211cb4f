"""The wal is damaged while a flood of tags is in an alert: nothing is told again, and it ends."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cut_off_run import newest
from journal_feeder import fold, opened
from sources_on_paper import MS, PaperSource

from unilab_metrics.aggregate.folding.entries import AlertRules, Entry, Seal, SourceJoined
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import EventUpdate

TAGS = 300
RULES = AlertRules(("b* > 5",), 0, 0)
WELL = {f"{kind}{n:03}": 1.0 for kind in "ab" for n in range(TAGS)}
BAD = {tag: math.nan if tag.startswith("a") else 9.0 for tag in WELL}
DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "noise": lambda path: path.write_bytes(b"\xa5" * path.stat().st_size),
}


class Learner:
    """One process; the next one after the damage is another."""

    def __init__(self, journal: Journal, incarnation: bytes) -> None:
        index = len(journal.state.data.sources)
        place = (SourceKey(0, "learner"), incarnation * 16)
        identity = Identity(*place, 1, "host", "boot", "", "", 0, 0, 1, RunInfo("sac"))
        self._journal, self._source = journal, PaperSource(index, identity)
        fold(journal, SourceJoined(index, identity))

    def log(self, iterations: range, values: dict[str, float]) -> None:
        for k in iterations:
            seal: Entry = Seal(k, k * MS, k * MS)
            fold(self._journal, self._source.iteration(k, values, t=k), seal)
            self._journal.commit()


@pytest.mark.parametrize("how", DAMAGES)
def test_a_flood_is_told_once_and_ends_once_whatever_becomes_of_the_wal(how: str, tmp_path: Path):
    with opened(tmp_path) as journal:
        fold(journal, RULES)
        learner = Learner(journal, b"i")
        learner.log(range(1, 6), WELL)
        learner.log(range(6, 9), BAD)
    DAMAGES[how](newest(tmp_path, "wal"))
    with opened(tmp_path) as journal:
        if not journal.state.data.alerts.is_active:
            fold(journal, RULES)
        learner = Learner(journal, b"j")
        learner.log(range(9, 12), BAD)
        # The last tag of each holds its alert open.
        learner.log(range(12, 30), WELL | {"a299": math.nan, "b299": 9.0})
        assert len(journal.state.data.alerts.open) == 2
        learner.log(range(30, 45), WELL)
        assert not journal.state.data.alerts.open
        assert journal.state.data.alerts.raised == 2
    assert _told(tmp_path) == [
        (ALERT, "nonfinite", 6),
        (ALERT, "rule", 6),
        (ALERT_OVER, "rule", 32),
        (ALERT_OVER, "nonfinite", 39),
    ]


def _told(directory: Path) -> list[tuple[str, object, int | None]]:
    with HistoryReader(directory) as reader:
        entries = [record.entry for record in reader.poll(100_000)]
    frames = [entry.frame for entry in entries if isinstance(entry, EventUpdate)]
    return [
        (frame.kind, frame.data["rule"], frame.iteration)
        for frame in frames
        if frame.kind in (ALERT, ALERT_OVER)
    ]
