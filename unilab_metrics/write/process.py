"""The process of one writer: its signals, its backend, its exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator
from datetime import datetime
from pathlib import Path
from typing import Any

from unilab_metrics.errors import ExitCode, RunNotFoundError
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.backends.base import Backend
from unilab_metrics.write.writer import run_writer

BACKENDS = ("tensorboard",)
"""Names that :func:`write_run` knows."""
DRAIN_S = 8.0
"""A writer that is told to end follows its run for this long: whoever ends a job signals all
of its processes at once, and the training's last values are still on their way."""


_STDOUT = 1


class StopSignal:
    """``SIGTERM``: end when the run has, at the latest after :data:`DRAIN_S`; a second one:
    end when what is durable now is written. ``SIGINT`` is for the training, not for us."""

    def __init__(
        self, drain_s: float = DRAIN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._drain_s = drain_s
        self._clock = clock
        self._end_by_s: float | None = None

    @contextlib.contextmanager
    def installed(self) -> Generator[None, None, None]:
        """Handles the signals inside; main thread only."""
        before = (
            signal.signal(signal.SIGTERM, self.receive),
            signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before[0])
            signal.signal(signal.SIGINT, before[1])

    def receive(self, *_: Any) -> None:
        """The signal handler."""
        now_s = self._clock()
        self._end_by_s = now_s + self._drain_s if self._end_by_s is None else now_s

    def __call__(self) -> bool:
        """Whether it is time to end."""
        return self._end_by_s is not None and self._clock() >= self._end_by_s


def write_run(run_dir: Path, backend_name: str, *, log_interval: int = 1) -> int:
    """Write the run into a backend; returns the exit code, and says on stdout what happens.

    Follows a live run to its end; of an ended one, what was cut off is completed. Main thread
    only. Raises ``RunNotFoundError``, what :func:`make_backend` and ``run_writer`` raise.
    """
    if not bus_directory(run_dir).is_dir():
        raise RunNotFoundError(run_dir, "holds no run")
    backend = make_backend(backend_name, run_dir, log_interval)
    stop = StopSignal()
    with stop.installed():
        complete = run_writer(run_dir, backend, stop=stop, log=_log)
    # Who supervises a writer starts it again unless it has finished its work.
    return ExitCode.OK if complete else ExitCode.UNEXPECTED


def make_backend(name: str, run_dir: Path, log_interval: int = 1) -> Backend:
    """Raises ``ValueError`` for a name that is not in :data:`BACKENDS`, and
    ``MissingPackageError``."""
    if name == "tensorboard":
        from unilab_metrics.write.backends import protos
        from unilab_metrics.write.backends.tensorboard import TensorBoardBackend

        protos.load()
        return TensorBoardBackend(run_dir, log_interval=log_interval)
    raise ValueError(f"no backend {name!r}; there are: {', '.join(BACKENDS)}")


def _log(text: str) -> None:
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="milliseconds")
    # Unbuffered, and the log may lie on the very disk that is full.
    with contextlib.suppress(OSError):
        os.write(_STDOUT, f"{now} {text}\n".encode("utf-8", "backslashreplace"))
