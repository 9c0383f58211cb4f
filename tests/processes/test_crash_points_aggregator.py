"""An aggregator that dies at each step of its work: nothing lost, nothing twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fault_runs import crash, side_by_side

pytestmark = pytest.mark.timeout(600)

# The passes of one life; the points of one line are met by one aggregator after the other.
ONCE = {
    "commit": "aggregator.received@9 aggregator.wal@8 aggregator.wal_written@6 "
    "aggregator.history@8 aggregator.committed@7",
    "new segments": "aggregator.wal@1 aggregator.history@1 aggregator.segment_created@1",
    "start": "aggregator.wal@2 aggregator.segment_created@2 aggregator.snapshot_written@1",
    "sync": "aggregator.syncing@2 aggregator.synced@3 aggregator.announced@9",
    "rotation": "aggregator.segment_created@4 aggregator.snapshot_written@2 "
    "aggregator.segment_deleted@1",
}
THREE_TIMES = {
    "received": "aggregator.received@4x3",
    "wal": "aggregator.wal@4x3",
    "wal header": "aggregator.wal@1x3",
    "first commit": "aggregator.wal@2x3",
    "between": "aggregator.wal_written@3x3",
    "history": "aggregator.history@4x3",
    "history header": "aggregator.history@1x3",
    "committed": "aggregator.committed@4x3",
    "syncing": "aggregator.syncing@2x3",
    "synced": "aggregator.synced@2x3",
    "announced": "aggregator.announced@5x3",
    "created": "aggregator.segment_created@1x3",
    "rotated": "aggregator.segment_created@4x3",
    "snapshot": "aggregator.snapshot_written@1x3",
    "snapshot of a rotation": "aggregator.snapshot_written@2x3",
    "deleted": "aggregator.segment_deleted@1x3",
}
SEGMENT_BYTES = 16384


def scenarios(folder: Path, lines: dict[str, str], world_size: int):
    return {
        name: partial(
            crash,
            folder / name,
            {"helpers": points},
            world_size=world_size,
            collectors=1,
            segment_bytes=SEGMENT_BYTES,
        )
        for name, points in lines.items()
    }


@pytest.mark.slow
def test_an_aggregator_dies_once_at_each_point(tmp_path: Path) -> None:
    assert side_by_side(scenarios(tmp_path, ONCE, 2)) == {}


@pytest.mark.slow
def test_an_aggregator_dies_three_times_in_a_row_at_each_point(tmp_path: Path) -> None:
    assert side_by_side(scenarios(tmp_path, THREE_TIMES, 1)) == {}
