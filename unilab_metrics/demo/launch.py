"""``unilab-metrics demo``: starts the ranks of one node, each a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from unilab_metrics.config import RUN_VARIABLE
from unilab_metrics.demo.algorithms import DEFAULT_ALGORITHM, options_of
from unilab_metrics.demo.job_options import JobOptions
from unilab_metrics.demo.metrics import SIM_BACKEND, TASK
from unilab_metrics.demo.overrides import OptionError
from unilab_metrics.demo.stop import LIFELINE_VARIABLE
from unilab_metrics.errors import ExitCode, StorageError, UnilabMetricsError
from unilab_metrics.run.directory import create_run_directory
from unilab_metrics.run.launching.launcher import run_owning_terminal
from unilab_metrics.run.processes import python_environment
from unilab_metrics.storage.standard_streams import above_standard_streams, fill_standard_streams

DEFAULT_RANKS = 2
LOOPBACK = "127.0.0.1"
_PORTS = 20_000, 32_000
"""Outgoing connections have those from 32,768 (Linux) or 49,152 (macOS) on."""


class TorchMissingError(UnilabMetricsError):
    """The demo trains with torch, which the package itself does not need."""

    exit_code = ExitCode.USAGE

    def __init__(self) -> None:
        super().__init__("the demo needs torch: pip install 'unilab-metrics[demo]'")


def run_demo(
    ranks: int,
    iterations: int | None,
    headless: bool,
    overrides: Sequence[str],
    *,
    algorithm: str = DEFAULT_ALGORITHM,
) -> int:
    """Trains on ``ranks`` local ranks to the end and returns the exit code for the shell.

    ``headless`` never takes the terminal. Raises :class:`OptionError` and
    :class:`TorchMissingError`; see
    :func:`unilab_metrics.run.launching.launcher.run_owning_terminal` for the rest.
    """
    fill_standard_streams()
    options = options_of(algorithm, overrides, iterations=iterations)
    if ranks < 1:
        raise OptionError("--ranks", f"at least 1, not {ranks}")
    if importlib.util.find_spec("torch") is None:
        raise TorchMissingError
    run_dir = _run_directory(options)
    arguments = _rank_arguments(algorithm, iterations, overrides)
    with _Lifeline() as lifeline:

        def start(console: BinaryIO) -> list[subprocess.Popen[bytes]]:
            return start_ranks(ranks, arguments, run_dir, output=console, lifeline=lifeline)

        return run_owning_terminal(start, run_dir, headless=headless)


def start_ranks(
    ranks: int,
    arguments: Sequence[str],
    run_dir: Path,
    *,
    output: BinaryIO | int | None = None,
    lifeline: int | None = None,
) -> list[subprocess.Popen[bytes]]:
    """One process per rank, each leading a session with its collector, output to ``output``.

    ``lifeline``: read end of a pipe; the ranks stop when nobody holds its write end.
    """
    base = rank_environment(python_environment(os.environ), ranks, run_dir, free_port())
    inherited = () if lifeline is None else (lifeline,)
    if lifeline is not None:
        base[LIFELINE_VARIABLE] = str(lifeline)
    return [
        subprocess.Popen(
            [sys.executable, "-m", "unilab_metrics.demo", *arguments],
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
        )
        for rank in range(ranks)
    ]


def rank_environment(
    environ: Mapping[str, str], ranks: int, run_dir: Path, port: int
) -> dict[str, str]:
    """What all ranks of a launch have in common; another launcher's variables do not count."""
    loopback_interface = "lo0" if sys.platform == "darwin" else "lo"
    return {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback_interface,
        **environ,
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        RUN_VARIABLE: os.fspath(run_dir),
    }


class _Lifeline:
    """A pipe whose write end this process alone holds; the system closes it when we die."""

    def __enter__(self) -> int:
        self._reader, self._writer = map(above_standard_streams, os.pipe())
        return self._reader

    def __exit__(self, *_: object) -> None:
        os.close(self._writer)
        os.close(self._reader)


def _run_directory(options: JobOptions) -> Path:
    chosen = options.training.log_dir
    root = Path(options.training.log_root if chosen is None else chosen).absolute()
    try:
        if chosen is None:
            started = datetime.now().astimezone()
            return create_run_directory(root, options.algorithm, TASK, SIM_BACKEND, started)
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(root, f"no run directory can be made: {error.strerror}") from error
    return root


def _rank_arguments(algorithm: str, iterations: int | None, overrides: Sequence[str]) -> list[str]:
    words = ["--algorithm", algorithm, *overrides]
    return words if iterations is None else ["--iterations", str(iterations), *words]


def free_port() -> int:
    """Where rank 0 can listen in some seconds; none of those that the system gives to outgoing
    connections. A rank that knocks there first would be given this very one some day: it is then
    connected to itself, and rank 0 cannot listen."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, random.randrange(*_PORTS)))
            return probe.getsockname()[1]
