"""A run that is played again, as lines of text: they end, whatever the run left and was asked for."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from long_history import LongHistory

from unilab_metrics.subscribe.replay import Replay
from unilab_sidecar.feeding.batch import Failure
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.printed.json_lines import JsonTeller
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.printed.plain import LineTeller, Teller, run_plain

COUNT = 700
PATIENCE_S = 20.0


def history(directory: Path, *, updates: int = COUNT, ended: str = "completed") -> Path:
    made = LongHistory(directory / "run")
    made.updates(updates)
    if ended:
        made.end(ended)
    return made.write()


def printed(
    run_dir: Path,
    teller: Teller,
    *,
    once: bool = True,
    speed: float = 10_000.0,
    iteration: int | None = None,
    gone: tuple[str, ...] | None = None,
) -> tuple[list[str], Failure | None]:
    feed = Feed(
        lambda: Replay(run_dir, speed=speed, iteration=iteration, is_still=once),
        wait_for_bus=False,
        find_abandoned=lambda: gone,
    )
    thread = threading.Thread(target=feed.run)
    thread.start()
    lines: list[str] = []
    deadline_s = time.monotonic() + PATIENCE_S
    failure = run_plain(
        feed, lines.append, once=once, is_past=True, teller=teller, interval_s=0.0,
        stopped=lambda: time.monotonic() > deadline_s,
    )  # fmt: skip
    feed.stop()
    thread.join(5)
    assert time.monotonic() < deadline_s, "it does not end"
    return lines, failure


@pytest.mark.parametrize("speed", [0.01, 1.0, 10_000.0])
@pytest.mark.parametrize("ended", ["completed", "failed", ""])
def test_the_last_numbers_are_there_at_once(tmp_path: Path, ended: str, speed: float) -> None:
    run_dir = history(tmp_path, ended=ended)
    lines, failure = printed(run_dir, LineTeller(), speed=speed)
    assert failure is None
    (line,) = lines
    assert line.startswith(f"iter {COUNT}  ")
    assert ("run ended: " + ended in line) if ended else ("run ended" not in line)
    (line,), _ = printed(run_dir, JsonTeller(1.0), speed=speed)
    assert (json.loads(line)["iteration"], json.loads(line)["ended"]) == (COUNT, ended or None)
    lines, _ = printed(run_dir, MetricTeller(1.0), speed=speed)
    assert any(one.startswith("Loss/critic ") for one in lines)


def test_of_a_run_that_was_cut_off_it_is_said(tmp_path: Path) -> None:
    run_dir = history(tmp_path, ended="")
    gone = ("the aggregator (pid 7)",)
    for once in (True, False):
        lines, failure = printed(run_dir, LineTeller(), once=once, gone=gone)
        assert failure == Failure("", 4)
        assert "run cut off" in lines[-1]
        assert lines[-1].startswith(f"iter {COUNT}")


def test_a_run_that_left_no_update_has_numbers_too(tmp_path: Path) -> None:
    run_dir = history(tmp_path, updates=0, ended="")
    for once in (True, False):
        lines, failure = printed(run_dir, LineTeller(), once=once)
        assert failure is None
        assert len(lines) == 1


@pytest.mark.parametrize("ended", ["completed", ""])
def test_it_is_over_where_the_files_end(tmp_path: Path, ended: str) -> None:
    run_dir = history(tmp_path, ended=ended)
    for iteration in (None, 650, 10**9):
        lines, failure = printed(run_dir, LineTeller(0.0), once=False, iteration=iteration)
        assert failure is None
        numbers = [line for line in lines if line.startswith("iter ")]
        assert numbers[-1].startswith(f"iter {COUNT}  ")


def test_the_numbers_of_an_iteration_are_those_of_then(tmp_path: Path) -> None:
    (line,), failure = printed(history(tmp_path), LineTeller(), iteration=300)
    assert failure is None
    assert line.startswith("iter 300  ")
