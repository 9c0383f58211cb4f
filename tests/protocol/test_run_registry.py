"""Live runs are found without a path; dead ones disappear from the list."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.places import state_directory
from unilab_metrics.transport import registry
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory

Start = Callable[[str], Path]


@pytest.fixture
def leases() -> Iterator[dict[Path, Lease]]:
    held: dict[Path, Lease] = {}
    yield held
    for lease in held.values():
        lease.release()


@pytest.fixture
def start(tmp_path: Path, leases: dict[Path, Lease]) -> Start:
    def start(name: str) -> Path:
        run_dir = tmp_path / name
        bus = private_directory(bus_directory(run_dir))
        leases[run_dir] = Lease.create(bus, AGGREGATOR_LEASE, b"")
        assert registry.register(run_dir, 1)
        return run_dir

    return start


def entries() -> list[Path]:
    return list((state_directory() / "runs").iterdir())


def test_a_run_in_another_container_stays_on_its_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    unseen = tmp_path / "only there"
    monkeypatch.setattr(registry, "START_GRACE_S", 0.0)
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "the-container")
        assert registry.register(unseen, 1)
    assert registry.live_runs() == []
    assert len(entries()) == 1
    unseen.mkdir()
    assert registry.live_runs() == []
    assert entries() == []


def test_nothing_is_live_at_first():
    assert registry.live_runs() == []
    assert registry.newest_live_run() is None


def test_live_runs_come_newest_first(start: Start, monkeypatch: pytest.MonkeyPatch):
    started_ns = time.time_ns()
    run_dirs: list[Path] = []
    for index in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda index=index: started_ns + index)
            run_dirs.append(start(f"run {index}"))
    assert [run.run_dir for run in registry.live_runs()] == run_dirs[::-1]
    newest = registry.newest_live_run()
    assert newest is not None
    assert newest[:3] == (run_dirs[2], os.getpid(), started_ns + 2)


def test_registering_twice_lists_once(start: Start):
    run_dir = start("run")
    registry.register(run_dir, 2)
    assert [run.run_dir for run in registry.live_runs()] == [run_dir]


def test_an_unregistered_run_is_not_listed(start: Start, tmp_path: Path):
    registry.unregister(start("run"))
    registry.unregister(tmp_path / "never there")
    assert registry.live_runs() == []


def test_a_relative_path_is_listed_as_an_absolute_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run_dir = start("run")
    monkeypatch.chdir(tmp_path)
    registry.register(Path("run"), 3)
    assert [run.run_dir for run in registry.live_runs()] == [run_dir]


def test_a_starting_run_is_kept_and_a_dead_one_dropped(
    start: Start, leases: dict[Path, Lease], monkeypatch: pytest.MonkeyPatch
):
    run_dir = start("run")
    leases[run_dir].release()
    assert registry.live_runs() == []
    assert len(entries()) == 1
    later_ns = time.time_ns() + int(61e9)
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    assert registry.live_runs() == []
    assert entries() == []


def test_runs_of_another_boot_or_machine_are_left_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
):
    start("run")
    monkeypatch.setattr(registry, "boot_id", lambda: "another")
    later_ns = time.time_ns() + int(61e9)
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    assert registry.live_runs() == []
    assert len(entries()) == 1


def test_garbage_in_the_list_is_passed_over(start: Start):
    run_dir = start("run")
    folder = state_directory() / "runs"
    for name, content in {"a.json": b"{", "b.json": b'{"version": 9}', "c.txt": b"x"}.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    (folder / "d.json").symlink_to(run_dir)
    assert [run.run_dir for run in registry.live_runs()] == [run_dir]


def test_a_state_directory_that_cannot_be_used_hurts_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert not registry.register(tmp_path / "run", 1)
    registry.unregister(tmp_path / "run")
    assert registry.live_runs() == []
