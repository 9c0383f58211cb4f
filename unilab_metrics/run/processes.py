"""Starting the helper processes: the aggregator and the writers.

A helper outlives who started it: it has a session of its own, so that neither Ctrl+C nor a
closing terminal reaches it, and no death signal, which would follow the starting *thread*.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unilab_metrics.config import AGGREGATOR_LOG_FILE, GPUS_VARIABLE, PYTHON_VARIABLE
from unilab_metrics.errors import StorageError
from unilab_metrics.publish.forking import unforked
from unilab_metrics.storage.bounded_reading import read_end
from unilab_metrics.storage.places import RUNTIME_VARIABLE, SPOOL_VARIABLE
from unilab_metrics.transport.rendezvous import bus_directory

_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST_WORDS_BYTES = 1000
_PACKAGES = ("unilab_metrics", "unilab_schema", "unilab_sidecar")
# Helpers work on small arrays: a pool of 64 BLAS threads would cost a node its start-up time
# and memory, and a device context would take memory from the training.
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    _VISIBLE_GPUS: "",
}


class Helper(subprocess.Popen[bytes]):
    """A child that goes on after us by design, so dropping the handle is no mistake."""

    def __del__(self, *_: Any) -> None:
        """No warning about a running child; the next ``Popen`` of this process reaps it."""
        destroy: Any = super().__del__
        destroy(_warn=_no_warning)


def _no_warning(*_: Any, **__: Any) -> None:
    """In place of ``warnings.warn``."""


def start_aggregator(
    run_dir: Path, *, spools: Iterable[Path], backends: Sequence[str], log_interval: int
) -> Helper:
    """Start the run's aggregator. Raises ``OSError`` if it cannot be started."""
    arguments = ["aggregate", os.fspath(run_dir), "--log-interval", str(log_interval)]
    for spool in spools:
        arguments += ["--spool", os.fspath(spool)]
    for backend in backends:
        arguments += ["--backend", backend]
    return start_helper(arguments, run_dir, AGGREGATOR_LOG_FILE)


def start_writer(run_dir: Path, backend: str, log_interval: int = 1) -> Helper:
    """Start the writer of one backend. Raises ``OSError`` if it cannot be started."""
    arguments = ["write", os.fspath(run_dir), "--backend", backend]
    return start_helper(
        [*arguments, "--log-interval", str(log_interval)], run_dir, writer_log(backend)
    )


def writer_log(backend: str) -> str:
    """The log file of a backend's writer, in the bus directory."""
    return f"writer-{backend}.log"


def start_helper(arguments: Sequence[str], run_dir: Path, log_name: str) -> Helper:
    """Start ``unilab-metrics ARGUMENTS`` with its output in ``bus/LOG_NAME``."""
    bus = bus_directory(run_dir)
    log = os.open(bus / log_name, _LOG_FLAGS, 0o600)
    try:
        with unforked():
            return Helper(
                [helper_python(os.environ), "-m", "unilab_metrics", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # ``-m`` puts the working directory first on the path: a training's own queue.py
                # or types.py must not become the helper's.
                cwd=bus,
                env=helper_environment(os.environ),
                start_new_session=True,
                close_fds=True,
            )
    finally:
        os.close(log)


def last_log_line(run_dir: Path, log_name: str) -> str:
    """The last words of a helper; empty if it has none."""
    try:
        words_bytes = read_end(bus_directory(run_dir) / log_name, _LAST_WORDS_BYTES)
        lines = words_bytes.decode(errors="replace").split("\n")
    except (OSError, StorageError):
        return ""
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return words.removeprefix("unilab-metrics: ")


def helper_python(environ: Mapping[str, str]) -> str:
    """The interpreter of the helpers: a command on the path, or a file."""
    chosen = environ.get(PYTHON_VARIABLE)
    if chosen and os.sep in chosen:
        # A helper works in another directory.
        return os.path.abspath(chosen)
    return chosen or sys.executable


def helper_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of an aggregator or a writer, which work in another directory."""
    folders = {name: environ.get(name) for name in (SPOOL_VARIABLE, RUNTIME_VARIABLE)}
    absolute = {name: os.path.abspath(value) for name, value in folders.items() if value}
    visible = environ.get(GPUS_VARIABLE, environ.get(_VISIBLE_GPUS))
    told = {} if visible is None else {GPUS_VARIABLE: visible}
    return python_environment(environ) | _ENVIRONMENT | absolute | told


def python_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for an interpreter in any directory that imports these very packages."""
    path = [os.fspath(Path(entry).absolute()) for entry in _path_entries(environ)]
    path += [parent for parent in _package_parents() if parent not in path]
    # From Python 3.11 on, ``-m`` then leaves the working directory off the path.
    return {**environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


def _path_entries(environ: Mapping[str, str]) -> list[str]:
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _package_parents() -> list[str]:
    """Where our packages lie, if a fresh interpreter might not look there."""
    parents: list[str] = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        parent = Path(spec.origin).absolute().parent.parent
        if parent.name not in {"site-packages", "dist-packages"}:
            parents.append(os.fspath(parent))
    return parents
