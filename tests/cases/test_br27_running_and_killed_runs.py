"""BR-27: a run that goes on, or that was killed, cannot be read."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, processes, scalars, updates
from real_runs import until
from small_disks import complete, training

from unilab_metrics.run.verifying.event_points import held_position, marked_points, points_per_tag
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.backends.event_files import find_mark, own_files

TAG = "Loss/value_0"


def own_points(run_dir: Path) -> int:
    """What our own reader of event files finds, up to the last mark."""
    position = held_position(run_dir).position
    if position is None:
        return 0
    return sum(point.tag == TAG for point in marked_points(run_dir, position))


def _kill(found: list[psutil.Process]) -> bool:
    """Whether there was anybody."""
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return bool(found)


@pytest.mark.slow
def test_a_running_run_is_readable_and_a_second_look_brings_what_came_meanwhile(
    tmp_path: Path,
) -> None:
    with training(tmp_path) as trainer:
        trainer.log(30)
        until(lambda: own_points(tmp_path) == 30)
        assert len(scalars(tmp_path)[TAG]) == len(updates(tmp_path)) == 30
        with HistoryReader(bus_directory(tmp_path)) as reader:
            first = reader.poll()
            trainer.log(30)
            until(lambda: own_points(tmp_path) == 60)
            second = reader.poll()
        assert len(scalars(tmp_path)[TAG]) == len(updates(tmp_path)) == 60
        assert [r.sequence for r in (*first, *second)] == list(range(1, len(first + second) + 1))
        assert (reader.damaged, reader.lost_entries) == (0, 0)
        assert verify_run(tmp_path).history.ended is None
        assert trainer.close()[0]["delivered"]


@pytest.mark.slow
def test_what_lay_there_when_everything_was_killed_is_readable(tmp_path: Path) -> None:
    with training(tmp_path) as trainer:
        trainer.log(100, 0.005)
        aggregator_pid(tmp_path)
        until(lambda: own_points(tmp_path) > 50)
        before = own_points(tmp_path)
        # Who starts others anew goes first, and who was started meanwhile goes as well.
        trainer.kill()
        until(lambda: not _kill(processes("aggregate") or processes()))
        steps = [step for step, _ in scalars(tmp_path)[TAG]]
        assert len(steps) == len(set(steps)) >= before
        assert own_points(tmp_path) >= before
        found = [update.iteration for update, _ in updates(tmp_path)]
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= before
        # The readers changed nothing: the rest is still to be had.
        complete(tmp_path)
        assert [u.iteration for u, _ in updates(tmp_path)] == list(range(1, 101))
        assert len(scalars(tmp_path)[TAG]) == 100


@pytest.mark.parametrize("size", [0, pytest.param(6, marks=pytest.mark.slow)])
def test_a_file_that_has_just_been_made_is_empty_and_no_error(size: int, tmp_path: Path) -> None:
    with training(tmp_path) as trainer:
        trainer.log(10)
        until(lambda: own_points(tmp_path) == 10)
        assert trainer.close()[0]["delivered"]
    until(lambda: not processes())
    event_file = own_files(tmp_path)[-1]
    newer = event_file.with_name(event_file.name.replace("tfevents.", "tfevents.9", 1))
    newer.write_bytes(event_file.read_bytes()[:size])
    history = list_segments(bus_directory(tmp_path), "history")[-1]
    successor = history.with_name("history-000009-000000")
    successor.write_bytes(history.read_bytes()[:size])
    mark = find_mark(newer)
    assert (mark.position, mark.end, mark.size_bytes) == (None, 0, size)
    assert own_points(tmp_path) == points_per_tag(tmp_path)[TAG] == 10
    assert len(scalars(tmp_path)[TAG]) == len(updates(tmp_path)) == 10
    assert verify_run(tmp_path).history.ended == "completed"
    # Alone too: empty, like a directory without a file.
    for path in (event_file, history):
        path.write_bytes(path.read_bytes()[:size])
    assert own_points(tmp_path) == 0
    assert points_per_tag(tmp_path) == {}
    assert updates(tmp_path) == []
