"""Spools of runs that no longer exist: which ones a later launch removes, and which ones never."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from spooled import spooled_publisher

from unilab_metrics.storage import lease
from unilab_metrics.storage.held_directory import HeldDirectory
from unilab_metrics.storage.removed_runs import KEPT_S, sweep_removed_runs
from unilab_metrics.storage.spool_owner import RunFile, SpoolOwner, decode_owner
from unilab_metrics.storage.spool_reader import LEASE_NAME

Leave = Callable[..., Path]


@pytest.fixture
def leave(tmp_path: Path) -> Leave:
    """Makes what a killed process of a run leaves, and the run's directory."""

    def leave(name: str = "run", *, age_s: float = 8 * 24 * 3600.0) -> Path:
        run_dir = tmp_path / "logs" / name
        run_dir.mkdir(parents=True)
        publisher = spooled_publisher(tmp_path / "root", rank=1)
        publisher.log({"a": 1.0}, iteration=0)
        spool = Path(publisher.identity.spool_path)
        status = run_dir.stat()
        mark = RunFile(path=os.fspath(run_dir), device=status.st_dev, inode=status.st_ino)
        with pytest.warns(RuntimeWarning):
            publisher.close(0)
        (spool / LEASE_NAME).write_bytes(SpoolOwner(pid=1, run=mark).encode())
        for path in (*spool.iterdir(), spool):
            os.utime(path, (0, time.time() - age_s))
        return spool

    return leave


def sweep(tmp_path: Path) -> list[Path]:
    return [swept.directory for swept in sweep_removed_runs([tmp_path / "root"])]


def test_a_spool_whose_run_was_removed_a_week_ago_goes_with_a_word(
    tmp_path: Path, leave: Leave
) -> None:
    spool = leave()
    (tmp_path / "logs" / "run").rmdir()
    (swept,) = sweep_removed_runs([tmp_path / "root"])
    assert swept.directory == spool
    assert f"its run {tmp_path / 'logs' / 'run'} was removed" in str(swept)
    assert list((tmp_path / "root").iterdir()) == []
    assert sweep(tmp_path) == []


def test_everything_that_can_still_be_delivered_stays(tmp_path: Path, leave: Leave) -> None:
    there = leave("there")
    moved_lately = leave("moved", age_s=KEPT_S - 3600)
    (tmp_path / "logs" / "moved").rename(tmp_path / "archive")
    anew = leave("anew")
    (tmp_path / "logs" / "anew").rmdir()
    (tmp_path / "logs" / "anew").touch()
    lives = leave("lives")
    (tmp_path / "logs" / "lives").rmdir()
    unknown = leave("unknown")
    (tmp_path / "logs" / "unknown").rmdir()
    (unknown / LEASE_NAME).write_bytes(b"4711")
    os.utime(unknown / LEASE_NAME, (0, 0))
    held = lease.take(lives / LEASE_NAME)
    assert held is not None
    assert sweep(tmp_path) == []
    held.release(unlink=False)
    assert all(spool.is_dir() for spool in (there, moved_lately, anew, lives, unknown))
    assert sweep(tmp_path) == [lives]


def test_a_run_on_a_disk_that_is_not_mounted_is_not_taken_for_removed(
    tmp_path: Path, leave: Leave
) -> None:
    spool = leave()
    (tmp_path / "logs" / "run").rmdir()
    owner = decode_owner((spool / LEASE_NAME).read_bytes())
    assert owner is not None
    assert owner.run is not None
    device = owner.run.device
    assert owner.run.was_removed()
    for path, on in (owner.run.path, device + 1), ("runs/1", device):
        elsewhere = RunFile(path=path, device=on, inode=1)
        assert not elsewhere.was_removed()
        (spool / LEASE_NAME).write_bytes(SpoolOwner(pid=1, run=elsewhere).encode())
        os.utime(spool / LEASE_NAME, (0, 0))
        assert sweep(tmp_path) == []


def test_what_is_no_part_of_a_spool_is_not_removed(tmp_path: Path, leave: Leave) -> None:
    spool = leave()
    (tmp_path / "logs" / "run").rmdir()
    (spool / "notes.txt").write_text("mine")
    for path in (spool / "notes.txt", spool):
        os.utime(path, (0, 0))
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "root" / "link").symlink_to(outside)
    assert sweep(tmp_path) == []
    assert [path.name for path in spool.iterdir()] == ["notes.txt"]


def test_a_held_directory_knows_removal_from_moving(tmp_path: Path) -> None:
    path = tmp_path / "run"
    held = HeldDirectory()
    assert not held.hold(path)
    path.mkdir()
    assert held.hold(path)
    assert not held.is_removed
    path.rename(tmp_path / "moved")
    assert not held.is_removed
    (tmp_path / "moved").rmdir()
    assert held.is_removed
    held.close()
    assert not held.is_removed
