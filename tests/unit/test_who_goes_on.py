"""Who of a command goes on after it was asked to stop: how long it is waited, and what is said."""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unilab_metrics.run.launching import left_behind
from unilab_metrics.run.launching.left_behind import LeftBehind

RUNS = [Path("/r")]
MARK = "PLACE=/a"
HELPER = 7


class Processes:
    """In the place of a ``ProcessTree``."""

    def __init__(self) -> None:
        self.pids = [11, 12]
        self.spared: list[set[int]] = []
        self.killed: list[set[int]] = []
        self.daemons: set[int] = set()

    def adopt(self, pid: int, mark: bytes) -> None:
        assert mark == MARK.encode()
        if pid in self.daemons and pid not in self.pids:
            self.pids.append(pid)

    def living(self, spare: Collection[int]) -> list[int]:
        self.spared.append(set(spare))
        return list(self.pids)

    def kill(self, spare: Collection[int]) -> None:
        self.killed.append(set(spare))


class Scene:
    """A command of pid 10, with others of which one trains, and a clock that is set by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.tree = Processes()
        self.training = {12}
        self.groups: list[tuple[int, int]] = []
        patch.setattr(left_behind, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        patch.setattr(left_behind, "ProcessTree", lambda _pid: self.tree)
        patch.setattr(left_behind, "helpers_of", lambda _run_dir: {HELPER})
        patch.setattr(left_behind, "_trainers", lambda _runs: self.training)
        patch.setattr(left_behind.os, "killpg", lambda *told: self.groups.append(told))
        self.process = SimpleNamespace(pid=10, returncode=None)
        self.left = LeftBehind(cast("Any", self.process), MARK)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_of_a_command_that_was_not_asked_nobody_is_waited_for_and_only_who_trains_is_named(
    scene: Scene,
) -> None:
    assert not scene.left.is_waited_for(RUNS)
    scene.now_s += 60.0
    assert scene.left.complaint(RUNS) == []
    assert scene.tree.spared == []
    assert scene.left.last_words(RUNS) == ["Still running  pid 12; to end them: kill 12"]
    scene.training, scene.tree.daemons = {20, 30, HELPER}, {20, HELPER}
    assert scene.left.last_words(RUNS) == ["Still running  pid 20; to end them: kill 20"]
    scene.training = set()
    assert scene.left.last_words(RUNS) == []


def test_all_are_waited_for_five_seconds_and_who_trains_for_longer(scene: Scene) -> None:
    scene.left.asked_to_stop(RUNS)
    scene.now_s += 4.9
    assert scene.left.is_waited_for(RUNS)
    scene.now_s += 0.2
    assert scene.left.is_waited_for(RUNS)
    scene.training = set()
    assert not scene.left.is_waited_for(RUNS)
    assert scene.tree.spared[-1] == {HELPER}


def test_a_training_that_is_a_daemon_is_waited_for_named_and_killed_and_that_of_others_is_not(
    scene: Scene,
) -> None:
    scene.tree.pids, scene.training, scene.tree.daemons = [], {HELPER, 20, 30}, {HELPER, 20}
    scene.left.asked_to_stop(RUNS)
    scene.now_s += 60.0
    assert scene.left.is_waited_for(RUNS)
    assert scene.left.complaint(RUNS) == ["not stopped yet: pid 20; Ctrl+C again kills them"]
    assert scene.left.last_words(RUNS) == ["Still running  pid 20; to end them: kill 20"]


def test_nobody_is_waited_for_who_has_ended(scene: Scene) -> None:
    scene.left.asked_to_stop(RUNS)
    scene.tree.pids = []
    scene.now_s += 1.0
    assert not scene.left.is_waited_for(RUNS)
    assert scene.left.last_words(RUNS) == []


def test_it_is_looked_twice_a_second(scene: Scene) -> None:
    scene.left.asked_to_stop(RUNS)
    before = len(scene.tree.spared)
    for _ in range(20):
        scene.now_s += 0.1
        scene.left.is_waited_for(RUNS)
    assert 3 <= len(scene.tree.spared) - before <= 4


def test_who_has_not_stopped_is_named_once_after_five_seconds(scene: Scene) -> None:
    scene.left.asked_to_stop(RUNS)
    scene.now_s += 4.9
    assert scene.left.complaint(RUNS) == []
    # Asked again, which begins no time anew.
    scene.left.asked_to_stop(RUNS)
    scene.now_s += 0.1
    assert scene.left.complaint(RUNS) == ["not stopped yet: pid 11, 12; Ctrl+C again kills them"]
    scene.now_s += 60.0
    assert scene.left.complaint(RUNS) == []


def test_the_last_words_name_who_goes_on_and_at_most_sixteen(scene: Scene) -> None:
    scene.left.asked_to_stop(RUNS)
    assert scene.left.last_words(RUNS) == ["Still running  pid 11, 12; to end them: kill 11 12"]
    scene.tree.pids = list(range(1, 19))
    (words,) = scene.left.last_words(RUNS)
    assert "15, 16 and 2 more;" in words
    assert words.endswith(" 15 16")


@pytest.mark.parametrize(("status", "groups"), [(None, [(10, signal.SIGKILL)]), (130, [])])
def test_a_kill_is_for_the_command_and_all_but_the_runs_helpers(
    scene: Scene, status: int | None, groups: list[tuple[int, int]]
) -> None:
    scene.process.returncode = status
    scene.left.asked_to_stop(RUNS)
    scene.left.kill(RUNS)
    assert scene.groups == groups
    assert scene.tree.killed == [{HELPER}]
