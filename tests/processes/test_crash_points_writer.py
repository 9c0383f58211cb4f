"""A writer that dies at each step of its work: every update once in the event files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fault_runs import crash, side_by_side

pytestmark = pytest.mark.timeout(600)

ONCE = {
    "first write": "writer.fetched@1 writer.file_created@1 writer.header@1",
    "later write": "writer.fetched@3 writer.events@3 writer.flushed@1",
}
THREE_TIMES = {
    "fetched": "writer.fetched@2x3",
    "created": "writer.file_created@1x3",
    "header": "writer.header@1x3",
    "events": "writer.events@1x3",
    "flushed": "writer.flushed@1x3",
}


def scenarios(folder: Path, lines: dict[str, str], world_size: int):
    return {
        name: partial(
            crash,
            folder / name,
            {"helpers": points},
            world_size=world_size,
            collectors=1,
        )
        for name, points in lines.items()
    }


@pytest.mark.slow
def test_a_writer_dies_once_at_each_point(tmp_path: Path) -> None:
    assert side_by_side(scenarios(tmp_path, ONCE, 2)) == {}


@pytest.mark.slow
def test_a_writer_dies_three_times_in_a_row_at_each_point(tmp_path: Path) -> None:
    assert side_by_side(scenarios(tmp_path, THREE_TIMES, 1)) == {}
