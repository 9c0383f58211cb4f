"""What an earlier attempt has left to tell is never told as the newest one's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unilab_metrics.run.bus_settings import SETTINGS_FILE
from unilab_metrics.run.launching import report, show
from unilab_metrics.run.launching.announced_runs import announce_to_launcher
from unilab_metrics.run.launching.bus_end import (
    earlier_summary_stamp,
    has_new_summary,
    summary_stamp,
)
from unilab_metrics.run.launching.command import _Command
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.run.launching.show import Kind, Show
from unilab_metrics.transport.rendezvous import bus_directory

# pyright: reportPrivateUsage=false

SECOND_NS = 1_000_000_000
EARLIER_NS = 1_700_000_000 * SECOND_NS


def summarise(run_dir: Path, written_unix_ns: int, iterations: int = 14_135) -> None:
    summary = {"status": "completed", "completed_iterations": iterations, "bus": {}}
    (run_dir / "run_summary.json").write_text(json.dumps(summary))
    os.utime(run_dir / "run_summary.json", ns=(written_unix_ns, written_unix_ns))


def open_attempt(run_dir: Path, opened_unix_ns: int) -> None:
    bus_directory(run_dir).mkdir(exist_ok=True)
    settings = bus_directory(run_dir) / SETTINGS_FILE
    settings.write_text("{}")
    os.utime(settings, ns=(opened_unix_ns, opened_unix_ns))


def test_a_summary_is_earlier_if_an_attempt_was_opened_after_it(run_dir: Path) -> None:
    assert earlier_summary_stamp(run_dir) == 0
    open_attempt(run_dir, EARLIER_NS)
    assert earlier_summary_stamp(run_dir) == 0
    summarise(run_dir, EARLIER_NS + SECOND_NS)
    assert earlier_summary_stamp(run_dir) == 0, "the attempt has ended already"
    assert has_new_summary(run_dir, 0)
    open_attempt(run_dir, EARLIER_NS + 2 * SECOND_NS)
    earlier = earlier_summary_stamp(run_dir)
    assert earlier == summary_stamp(run_dir) == EARLIER_NS + SECOND_NS
    assert not has_new_summary(run_dir, earlier)
    summarise(run_dir, EARLIER_NS + 3 * SECOND_NS)
    assert has_new_summary(run_dir, earlier)


def test_a_report_tells_no_earlier_summary_but_who_is_at_work_and_what_shows_it(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summarise(run_dir, EARLIER_NS)
    monkeypatch.setattr(report, "settled_pid", lambda _lease: 42)
    lines = report_lines(run_dir, earlier_summary=EARLIER_NS)
    assert lines[1:] == [
        "Summary        not yet: the aggregator (pid 42) is at work and puts run_summary.json there",
        f"Look again     unilab-metrics attach {run_dir}",
    ]
    monkeypatch.setattr(report, "settled_pid", lambda _lease: None)
    assert report_lines(run_dir, earlier_summary=EARLIER_NS)[1:] == [
        "Summary        of an earlier attempt; this one ended before its own could be written"
    ]
    summarise(run_dir, EARLIER_NS + SECOND_NS, 15_000)
    assert "Iterations     15,000" in report_lines(run_dir, earlier_summary=EARLIER_NS)[2]


def test_each_attempt_of_a_command_in_one_directory_has_an_end_of_its_own(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").touch()
    monkeypatch.setenv("UNILAB_METRICS_CONSOLE", os.fspath(tmp_path))
    command = _Command(["true"], tmp_path, None, "off", 1.0)
    ended = SimpleNamespace(returncode=1)
    for attempt in range(2):
        open_attempt(run_dir, EARLIER_NS + 2 * attempt * SECOND_NS)
        announce_to_launcher(os.environ, run_dir)
        command._look_for_runs()
        told = "\n".join(command._last_words(cast("Any", ended), whole=True))
        assert "Iterations" not in told
        summarise(run_dir, EARLIER_NS + (2 * attempt + 1) * SECOND_NS)
        assert "14,135" in "\n".join(command._last_words(cast("Any", ended), whole=True))


def test_a_view_of_the_next_attempt_has_not_ended_with_the_one_before(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = SimpleNamespace(
        owns_screen=False, exit_status=None, process=SimpleNamespace(stdout=None)
    )
    monkeypatch.setattr(show.View, "lines", lambda *_args, **_more: view)
    shown = Show(Kind.LINES, cast("Any", SimpleNamespace(is_shown=True)))
    shown.begin(run_dir, 0)
    summarise(run_dir, EARLIER_NS)
    assert shown._has_ended()
    shown.begin(run_dir, EARLIER_NS)
    assert not shown._has_ended()
