"""The run directory: ``logs/<algo_log_name>/<task>/YYYY-MM-DD_HH-MM-SS_<sim_backend>/``.

The directory and its event files follow the umask, so that a shared TensorBoard can read
them; only ``bus/`` inside is private.
"""

from __future__ import annotations

import re
import stat
from datetime import datetime
from pathlib import Path

_LOG_NAMES = {"ppo": "rsl_rl_ppo"}
_UNSAFE = re.compile(r"[^\w.+=@-]+")
_MAX_NAME_BYTES = 200


def algo_log_name(algorithm: str) -> str:
    """The folder of an algorithm's runs: ``rsl_rl_ppo`` for PPO, else its own name."""
    return _LOG_NAMES.get(algorithm.lower(), _folder(algorithm, "training"))


def run_directory_path(
    log_root: Path, algorithm: str, task: str, sim_backend: str, started: datetime
) -> Path:
    """Where a run that started then belongs. Pure; nothing is created."""
    name = started.strftime("%Y-%m-%d_%H-%M-%S")
    if sim_backend:
        name += f"_{_folder(sim_backend, 'sim')}"
    return log_root / algo_log_name(algorithm) / _folder(task, "default") / name


def create_run_directory(
    log_root: Path, algorithm: str, task: str, sim_backend: str, started: datetime
) -> Path:
    """A new directory of this run alone, absolute. Raises ``OSError`` if it cannot be made.

    Runs that start in the same second get ``-2``, ``-3``, ... appended.
    """
    first = run_directory_path(log_root, algorithm, task, sim_backend, started)
    first.parent.mkdir(parents=True, exist_ok=True)
    path, n = first, 1
    while True:
        try:
            path.mkdir()
        except FileExistsError:
            n += 1
            path = first.with_name(f"{first.name}-{n}")
        else:
            return path.resolve()


def file_mode(run_dir: Path) -> int:
    """Mode of a file that is put into the run directory by a rename: what the umask of the
    directory's maker left, so that it needs no look at the umask, which is a write."""
    return stat.S_IMODE(run_dir.stat().st_mode) & 0o666


def _folder(name: str, default: str) -> str:
    safe = _UNSAFE.sub("_", name).lstrip(".-")
    return safe.encode()[:_MAX_NAME_BYTES].decode(errors="ignore") or default
