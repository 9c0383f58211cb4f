"""A last report that is cut short: by a Ctrl+C, or because a training waits for it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from unilab_metrics.run.launching import report
from unilab_metrics.run.launching.report import report_lines, whole_or_short


def test_a_report_is_whole_unless_ctrl_c_cuts_its_reading_short() -> None:
    asked: list[bool] = []

    def lines(whole: bool) -> list[str]:
        asked.append(whole)
        if whole and len(asked) > 1:
            signal.raise_signal(signal.SIGINT)
        return ["whole" if whole else "short"]

    assert whole_or_short(lines) == ["whole"]
    assert whole_or_short(lines) == ["short"]
    assert asked == [True, True, False]


def test_a_short_report_reads_no_backend(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = {"status": "completed", "bus": {"backends": {"tensorboard": {}}}}
    monkeypatch.setattr(report, "read_summary", lambda _: summary)

    def read(*_: object) -> tuple[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "_backend", read)
    lines = whole_or_short(lambda whole: report_lines(run_dir, with_backends=whole))
    assert lines[0].startswith("Run directory")
    assert lines[-1].startswith("Look again")


def test_of_large_files_a_report_says_only_that_they_are_there(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = {"status": "completed", "bus": {"backends": {"tensorboard": 3}}}
    monkeypatch.setattr(report, "read_summary", lambda _: summary)
    run_dir.mkdir(exist_ok=True)
    events = run_dir / "events.out.tfevents.1.h.1.a.unilab"
    events.write_bytes(b"")
    small = report_lines(run_dir, most_bytes=10)
    assert "TensorBoard    no points" in small
    events.write_bytes(b"x" * 11)
    large = report_lines(run_dir, most_bytes=10)
    assert "TensorBoard    written" in large
