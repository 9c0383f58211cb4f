"""The output of a training, taken from the first byte on and never in its way.

The training writes into a pipe that the copier empties. Its parent holds the pipe's other end
open too: a copier that was killed is started again, and meanwhile the pipe takes up to a MiB.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, final

from unilab_metrics.publish.forking import unforked
from unilab_metrics.run.processes import Helper, helper_python, python_environment
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.storage.standard_streams import above_standard_streams

_PIPE_BYTES = 1024 * 1024
_RESTART_S = 0.5
_END_S = 2.0


@final
class Capture:
    """A pipe and its copier. Owned by one thread at a time.

    ``follows_runs``: ``directory`` is a launcher's place and not a run directory. Raises
    ``OSError`` if no copier can be started.
    """

    def __init__(self, directory: Path, *, follows_runs: bool = False) -> None:
        self._directory = directory
        self._follows_runs = follows_runs
        self._fds: list[int] = []
        try:
            self._source, sink = self._pipe()
            self.tee, self._tee_sink = self._pipe()
            self.sink: BinaryIO = os.fdopen(sink, "wb", buffering=0)
            self._fds.remove(sink)
            self._copier = self._start()
        except BaseException:
            self._close_fds()
            raise
        self._looked_s = time.monotonic()

    def tend(self) -> None:
        """Start the copier again if it was killed, and continue one that somebody has stopped;
        called a few times a second. Never raises."""
        if time.monotonic() - self._looked_s < _RESTART_S:
            return
        self._looked_s = time.monotonic()
        status = self._copier.poll()
        with contextlib.suppress(OSError):
            if status is None and stat_fields(self._copier.pid)[:1] == ["T"]:
                self._copier.send_signal(signal.SIGCONT)
            elif status:
                self._copier = self._start()

    @property
    def pid(self) -> int:
        """The copier."""
        return self._copier.pid

    def let_end(self) -> None:
        """We write nothing more, and whoever reads the tee is to see its end."""
        self.sink.close()
        self._close(self._tee_sink)

    def forget_tee(self) -> None:
        """Another process reads it from now on."""
        self._close(self.tee)

    def wait(self, timeout_s: float = _END_S) -> None:
        """For the copier, after :meth:`let_end`; one that goes on, because somebody writes
        still, is let go."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._copier.wait(timeout_s)

    def close(self) -> None:
        """Close our ends; idempotent."""
        self.let_end()
        self._close_fds()

    def __enter__(self) -> Capture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> Helper:
        options = ["--runs"] if self._follows_runs else []
        if self._tee_sink in self._fds:
            options += ["--tee", str(self._tee_sink)]
        module = "unilab_metrics.run.output.copier"
        with unforked():
            return Helper(
                [
                    *(helper_python(os.environ), "-m", module),
                    *(str(self._source), os.fspath(self._directory), *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=python_environment(os.environ),
                # Neither Ctrl+C nor a closing terminal is meant for it.
                start_new_session=True,
                pass_fds=[self._source, *(fd for fd in [self._tee_sink] if fd in self._fds)],
            )

    def _pipe(self) -> tuple[int, int]:
        reader, writer = map(above_standard_streams, os.pipe())
        self._fds += [reader, writer]
        grow = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only, and bounded per user
        if grow is not None:
            with contextlib.suppress(OSError):
                fcntl.fcntl(writer, grow, _PIPE_BYTES)
        return reader, writer

    def _close(self, fd: int) -> None:
        if fd in self._fds:
            self._fds.remove(fd)
            os.close(fd)

    def _close_fds(self) -> None:
        for fd in list(self._fds):
            self._close(fd)
