"""Where runs lie, and that two never share a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from unilab_metrics.run.directory import algo_log_name, create_run_directory, run_directory_path

STARTED = datetime(2026, 3, 9, 18, 30, 0, tzinfo=timezone.utc)


@pytest.fixture
def umask_0022() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("ppo", "rsl_rl_ppo"),
        ("appo", "appo"),
        ("sac", "sac"),
        ("fast_sac", "fast_sac"),
        ("flash_sac", "flash_sac"),
        ("", "training"),
    ],
)
def test_algo_log_name(algorithm: str, expected: str) -> None:
    assert algo_log_name(algorithm) == expected


def test_layout_of_the_path() -> None:
    path = run_directory_path(Path("logs"), "ppo", "Go2JoystickFlat", "mujoco", STARTED)
    assert path == Path("logs/rsl_rl_ppo/Go2JoystickFlat/2026-03-09_18-30-00_mujoco")


def test_no_simulator_leaves_no_trailing_underscore() -> None:
    assert run_directory_path(Path("l"), "sac", "t", "", STARTED).name == "2026-03-09_18-30-00"


@pytest.mark.parametrize("task", ["../../etc", "a/b", "..", "", ".hidden", "漢" * 4000, "a\0b"])
def test_a_hostile_task_name_stays_one_folder_under_the_root(task: str, tmp_path: Path) -> None:
    path = create_run_directory(tmp_path, "sac", task, "toy", STARTED)
    assert path.parent.parent == (tmp_path / "sac").resolve()


def test_many_runs_of_the_same_second_get_a_directory_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(
            pool.map(
                lambda _: create_run_directory(tmp_path, "sac", "Toy", "toy", STARTED), range(20)
            )
        )
    assert len(set(paths)) == 20
    assert min(paths).name == "2026-03-09_18-30-00_toy"
    assert (paths[0].parent / "2026-03-09_18-30-00_toy-20").is_dir()


def test_the_directory_follows_the_umask(tmp_path: Path, umask_0022: None) -> None:
    path = create_run_directory(tmp_path, "sac", "Toy", "toy", STARTED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
