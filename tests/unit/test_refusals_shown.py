"""What the run has refused is no secret of its summary: verify counts it among the losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unilab_metrics.run.verifying.verify import HistoryFacts, Verified, _losses
from unilab_metrics.run.verifying.verify_report import refused_frames, report, report_fields


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


@pytest.mark.parametrize("refused", [0, 3])
def test_verify_does_not_pass_over_them(refused: int) -> None:
    drops = {"bad_tag": 1, **({"refused_frame": refused} if refused else {})}
    verified = Verified(HistoryFacts(1, 1, "completed"), {}, 0, 2 + refused, drops)
    assert refused_frames(verified) == refused
    assert report_fields(verified)["ok"] is (not refused)
    why = " (3 frames that the run refused)" if refused else ""
    assert f"losses       {2 + refused} frames lost{why}, dropped: 1 unusable tag name" in report(
        verified
    )
