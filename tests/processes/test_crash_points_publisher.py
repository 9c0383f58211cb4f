"""Training processes that die at each step of publishing: nothing lost, nothing twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fault_runs import crash, side_by_side

pytestmark = pytest.mark.timeout(600)

# A process of each kind at each point; the later pass is one of a steady training.
ONCE = {
    "appending": {
        "learner-0": "publisher.append@40",
        "learner-1": "publisher.append@25",
        "collector-0": "publisher.append@30",
        "collector-1": "publisher.append@3",
    },
    "appended": {
        "learner-0": "publisher.appended@41",
        "learner-1": "publisher.appended@1",
        "collector-0": "publisher.appended@31",
        "collector-1": "publisher.appended@2",
    },
    "rotated": {
        "learner-0": "publisher.rotated@2",
        "learner-1": "publisher.rotated@1",
        "collector-0": "publisher.rotated@1",
    },
    "trimming": {"learner-0": "publisher.trimming@2", "collector-1": "publisher.trimming@1"},
    "ending of a rank": {"learner-1": "publisher.ending", "collector-0": "publisher.ending"},
    "ending of rank 0": {"learner-0": "publisher.ending"},
}
SEGMENT_BYTES = 4096


@pytest.mark.slow
def test_a_publisher_dies_once_at_each_point(tmp_path: Path) -> None:
    scenarios = {
        name: partial(crash, tmp_path / name, points, segment_bytes=SEGMENT_BYTES)
        for name, points in ONCE.items()
    }
    assert side_by_side(scenarios) == {}


@pytest.mark.slow
def test_a_publisher_dies_three_times_in_a_row_at_each_point(tmp_path: Path) -> None:
    scenarios = {
        name: partial(
            crash,
            tmp_path / name,
            {place: f"{point}x3" for place, point in points.items()},
            segment_bytes=SEGMENT_BYTES,
        )
        for name, points in ONCE.items()
        if "ending" not in name
    }
    assert side_by_side(scenarios) == {}
