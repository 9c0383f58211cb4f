"""``python -m unilab_sidecar`` on the files of real runs, through the real subscriber."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_run import ToyRun

from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.summary import Summary, summary_in
from unilab_sidecar.feeding.update_source import UpdateSource
from unilab_sidecar.series import Series
from unilab_sidecar.terminal.own_terminal import can_show_screen


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(tmp_path / "run", tmp_path)
    yield made
    made.close()


def sidecar(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "unilab_sidecar", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def test_an_ended_run_is_told_to_its_end(run: ToyRun):
    run.updates(60)
    run.end()
    result = sidecar(run.run_dir)
    assert (result.returncode, result.stderr) == (0, b"")
    lines = result.stdout.decode().splitlines()
    assert lines[-2].startswith("iter 60  ")
    assert "dropped" not in lines[-2]
    assert lines[-1] == "run ended: completed"
    assert b"\x1b" not in result.stdout
    assert b"\r" not in result.stdout


def test_once_is_one_line_about_the_end_and_what_the_summary_says(run: ToyRun):
    run.updates(3500)
    run.end()
    bus = {"attempt": 1, "lost_frames": 100, "dropped_calls": {"spool_quota": 1500}}
    (run.run_dir / "run_summary.json").write_text(json.dumps({"bus": bus}), "utf-8")
    result = sidecar(run.run_dir, "--once")
    assert result.returncode == 0
    assert result.stdout.decode().startswith("iter 3500  ")
    assert "  dropped 1600  " in result.stdout.decode()
    assert result.stdout.endswith(b"  run ended: completed\n")
    assert result.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "[]", "{}", '{"bus": 3}', '{"bus": {"attempt": 1}}', "[" * 100_000,
        '{"bus": {"attempt": 2, "lost_frames": 1, "dropped_calls": {}}}',
        '{"bus": {"attempt": 1, "lost_frames": null, "dropped_calls": {}}}',
    ],
)  # fmt: skip
def test_a_summary_that_does_not_say_it_gives_no_number(text: str):
    summary = summary_in(text.encode(), 1)
    assert summary is None or summary == Summary()


@pytest.mark.parametrize(("name", "code"), [("nowhere", 3), ("empty", 3)])
def test_what_is_no_run_is_named_with_its_exit_code(tmp_path: Path, name: str, code: int):
    (tmp_path / "empty").mkdir()
    result = sidecar(tmp_path / name)
    assert result.returncode == code
    assert result.stdout == b""
    assert name.encode() in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_reader_that_leaves_is_no_error(run: ToyRun):
    run.updates(3)
    run.end()
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "unilab_sidecar", str(run.run_dir)],
        stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_numbers_on_the_screen_are_the_means_of_what_the_history_holds(run: ToyRun):
    run.updates(250)
    run.end()

    def attach() -> UpdateSource:
        return Subscriber.attach(run.run_dir)

    feed = Feed(attach, wait_for_bus=False)
    thread = threading.Thread(target=feed.run)
    thread.start()
    series = Series()
    deadline_s = time.monotonic() + 20
    while series.picture().ended is None and time.monotonic() < deadline_s:
        for batch in feed.wait(0.2):
            assert batch.failure is None
            series.add(batch)
    feed.stop()
    thread.join(5)
    picture = series.picture()
    # The toy seals everything at the same moment, so all of it lies in one window.
    assert picture.samples == 250
    assert picture.losses[0].reading.value == pytest.approx(
        sum(n / 3 for n in range(1, 251)) / 250, rel=1e-12
    )


def test_the_screen_needs_three_terminals_in_the_foreground(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    assert can_show_screen({"TERM": "xterm"}, launched=False)
    assert not can_show_screen({"TERM": "dumb"}, launched=True)
    assert not can_show_screen({}, launched=False)
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor != 2)
    assert not can_show_screen({"TERM": "xterm"}, launched=True)
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
    assert not can_show_screen({"TERM": "xterm"}, launched=False)
