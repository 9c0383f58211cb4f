"""What the run has refused is no secret of its summary: verify counts it among the losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unilab_metrics.run.verify import _losses


@pytest.mark.parametrize(
    ("quarantined", "dropped"),
    [(0, {"bad_tag": 1}), (3, {"bad_tag": 1, "refused_frame": 3})],
)
def test_refused_frames_are_losses(
    tmp_path: Path, quarantined: int, dropped: dict[str, int]
) -> None:
    bus = {"lost_frames": 2, "dropped_calls": {"bad_tag": 1}, "quarantined_frames": quarantined}
    (tmp_path / "run_summary.json").write_text(json.dumps({"bus": bus}))
    assert _losses(tmp_path) == (2 + quarantined, dropped)
