"""What the last report of a run says of rewards, alerts, and how to look at it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unilab_metrics import drop_words
from unilab_metrics.aggregate.folding import limits, refused_frames
from unilab_metrics.publish import losses
from unilab_metrics.run.launching import report
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.run.launching.told_figures import alerts_text, nonfinite_text, reward_text


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        ({"final_mean_reward": 412.06, "best_mean_reward": 420.5}, "412.1, best 420.5"),
        ({"final_mean_reward": 7.0, "best_mean_reward": 7.0}, "7, the best one"),
        ({"final_mean_reward": None, "best_mean_reward": 12.5}, "best 12.5"),
        ({"final_mean_reward": "high", "best_mean_reward": True}, ""),
        ({}, ""),
    ],
)
def test_the_last_and_the_best_mean_reward_are_told(summary: dict[str, Any], text: str) -> None:
    assert reward_text(summary) == text


def test_the_first_tag_that_was_not_finite_is_named_with_its_iteration_and_rank() -> None:
    found = {"Loss/b": {"iteration": 1042, "rank": 1}, "Loss/a": {"iteration": 1043, "rank": 0}}
    bus: dict[str, Any] = {"first_nonfinite": found, "world_size": 2}
    assert nonfinite_text(bus) == "Loss/b first at iteration 1,042 (rank 1), and 1 more tag"
    del found["Loss/a"]
    bus["world_size"] = 1
    assert nonfinite_text(bus) == "Loss/b first at iteration 1,042"


def test_alerts_are_counted_and_the_newest_open_one_is_told() -> None:
    bus: dict[str, Any] = {
        "alerts": {"raised": 3, "open": 2, "open_texts": ["first", "reward \x1b"]}
    }
    assert alerts_text(bus) == "3, 2 still open: reward �"
    bus["alerts"] = {"raised": 3, "open": 0, "open_texts": []}
    assert alerts_text(bus) == "3, none open at the end"


def test_an_alert_of_numbers_that_were_none_is_not_told_twice() -> None:
    nan = "NaN in Loss/a at iteration 3"
    bus: dict[str, Any] = {
        "alerts": {"raised": 1, "open": 1, "open_texts": [nan]},
        "first_nonfinite": {"Loss/a": {"iteration": 3, "rank": 0}},
    }
    assert alerts_text(bus) == "1, 1 still open"
    del bus["first_nonfinite"]
    assert alerts_text(bus) == f"1, 1 still open: {nan}"


@pytest.mark.parametrize(
    "bus",
    [
        {},
        {"alerts": None, "first_nonfinite": [1]},
        {"alerts": {"raised": 0, "open": 0}, "first_nonfinite": {}},
        {"alerts": {"raised": 1.5}, "first_nonfinite": {"a": 3, "b": {"iteration": "x"}}},
    ],
)
def test_what_is_not_there_or_not_ours_is_passed_over(bus: dict[str, Any]) -> None:
    assert (alerts_text(bus), nonfinite_text(bus)) == ("", "")


def test_the_report_of_a_run_with_nan_says_so_and_how_to_see_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tmp_path / "a run"
    run_dir.mkdir()
    monkeypatch.chdir(tmp_path)
    bus: dict[str, Any] = {
        "ended": "failed",
        "first_nonfinite": {"Loss/a": {"iteration": 3, "rank": 0}},
        "alerts": {"raised": 2, "open": 1, "open_texts": ["Loss/c > 1 for 2 s"]},
        "dropped_calls": {"bad_value": 9},
    }
    summary = {"status": "failed", "final_mean_reward": 1.0, "best_mean_reward": 2.0, "bus": bus}
    (run_dir / "run_summary.json").write_text(json.dumps(summary))
    lines = report_lines(run_dir, with_backends=False)
    assert lines[3:] == [
        "Mean reward    1, best 2",
        "NaN or inf     Loss/a first at iteration 3",
        "Alerts         2, 1 still open: Loss/c > 1 for 2 s",
        "Dropped        9 values that are no number",
        "Look again     unilab-metrics replay 'a run'",
    ]


def test_the_report_of_a_run_without_summary_says_how_to_see_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "Summary        none: the run ended before it could be written"
    assert report_lines(tmp_path)[1:] == [why], "there is nothing to see"
    monkeypatch.setattr(report, "list_segments", lambda _bus_dir, _kind: [tmp_path])
    again = f"Look again     unilab-metrics replay {tmp_path}"
    assert report_lines(tmp_path)[1:] == [why, again]


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"a": 135, "b": 277}, "2 tags, 135 to 277 points each"),
        ({"a": 1}, "1 tag, 1 point each"),
        ({}, "no points"),
    ],
)
def test_points_are_told_per_tag(
    counts: dict[str, int], text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def points_per_tag(_run_dir: Path) -> dict[str, int]:
        return counts

    monkeypatch.setattr("unilab_metrics.run.verifying.event_points.points_per_tag", points_per_tag)
    assert report._tensorboard(tmp_path) == text  # pyright: ignore[reportPrivateUsage]


def test_every_reason_for_which_something_is_dropped_has_words() -> None:
    reasons = {getattr(losses, name) for name in dir(losses) if name.isupper()}
    reasons = {reason for reason in reasons if isinstance(reason, str)}
    reasons |= {limits.TOO_MANY_RUN_TAGS, limits.TOO_MANY_REPORTS, limits.SPOOL_UNAVAILABLE}
    reasons.add(refused_frames.REFUSED_FRAME)
    assert len(reasons) > 15
    for reason in reasons - losses.TROUBLES:
        words = drop_words.what_dropped(reason)
        assert words != reason.replace("_", " "), reason
        assert len(words) <= 32, "a column of the bus view"
        assert drop_words.counted_drops(reason, 1) != f"1 {words}" or "s" not in words, reason
    for name in losses.TROUBLES:
        assert "_" not in drop_words.trouble_words(name)
    assert drop_words.dropped_text({"new_one": 2, "closed": 1}) == "1 call after close(), 2 new one"
    assert drop_words.dropped_text({}) == "nothing"
    assert drop_words.troubles_text({"key_refused": 1, "odd_one": 2}) == (
        "key refused once, odd one 2 times"
    )
