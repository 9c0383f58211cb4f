"""A training of real processes that anybody may kill, and that goes on as trainings do.

A dead collector, or a dead learner that is not rank 0, is started again in the same attempt. If
rank 0 dies the whole attempt ends and the next one begins, as under torchrun. The helpers are
looked after by rank 0 and the aggregator themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from fault_helper import SEGMENT_BYTES_VARIABLE, interpreter
from fault_rank import STOP_COLLECTORS, STOP_LEARNERS, Settings

from unilab_metrics.config import PYTHON_VARIABLE
from unilab_metrics.crash_points import POINTS_VARIABLE, TOKENS_VARIABLE, parse, used
from unilab_metrics.storage.lease import is_free, owner_pid
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

if TYPE_CHECKING:
    from typing_extensions import Self

_HERE = Path(__file__).parent
_TURN_S = 0.01
PATIENCE_S = 120.0
"""For what a busy machine may take a minute for: some starts one after the other."""


class FaultTraining:
    """Everything happens in the calls of one thread; :meth:`turn` looks after the processes.

    ``points``: crash points by process (``learner-0``, ``collector-1``, …); those of
    ``helpers`` are for the aggregator and the writer, those of ``command`` for :meth:`command`. ``environment``: for every process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        world_size: int = 2,
        collectors: int = 2,
        sidecar: bool = False,
        interval_s: float = 0.01,
        points: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        segment_bytes: int = 0,
        close_timeout_s: float = 30.0,
    ) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.ledgers = folder / "ledgers"
        self.tokens = folder / "tokens"
        for path in (self.run_dir, self.ledgers, self.tokens / "command"):
            path.mkdir(parents=True)
        self._environment = {
            **os.environ,
            **(environment or {}),
            PYTHON_VARIABLE: os.fspath(interpreter(folder)),
            SEGMENT_BYTES_VARIABLE: str(segment_bytes),
        }
        self._points = dict(points or {})
        self._segment_bytes = segment_bytes
        self._close_timeout_s = close_timeout_s
        self._interval_ns = int(interval_s * 1e9)
        self._start_mono_ns = time.monotonic_ns()
        self._world_size = world_size
        self._places = [f"learner-{rank}" for rank in range(world_size)]
        self._places += [f"collector-{rank}" for rank in range(collectors)]
        self._log = (folder / "output.log").open("ab")
        self._starts = 0
        self.attempts = 0
        self.is_finishing = False
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ledger_of: dict[str, Path] = {}
        self._has_sidecar = sidecar
        self.kills: list[tuple[str, int]] = []
        """Who was killed, and when on the monotonic clock."""
        self.ended_mono_ns = 0
        """When the run was complete."""

    # --- starting ------------------------------------------------------------------------

    def start_attempt(self) -> None:
        self.attempts += 1
        for place in self._places:
            self._start(place)
        if self._has_sidecar and "sidecar" not in self.processes:
            self.start_sidecar()

    def _start(self, place: str) -> None:
        role, _, rank = place.partition("-")
        self._starts += 1
        settings = Settings(
            run_dir=os.fspath(self.run_dir),
            folder=os.fspath(self.ledgers),
            role=role,
            rank=int(rank),
            world_size=self._world_size,
            name=f"{place}-{self.attempts}-{self._starts}",
            first=self.newest_iteration() + 2,
            start_mono_ns=self._start_mono_ns,
            interval_ns=self._interval_ns,
            segment_bytes=self._segment_bytes,
            close_timeout_s=self._close_timeout_s,
        )
        self._ledger_of[place] = self.ledgers / f"{settings.name}.ledger"
        points = [self._points.get(place, "")]
        if place == "learner-0":
            points.append(self._points.get("helpers", ""))
        self.processes[place] = self._popen(
            [os.fspath(_HERE / "fault_rank.py"), msgspec.json.encode(settings).decode()],
            self._armed(place, *points),
        )

    def start_sidecar(self) -> None:
        command = ["-m", "unilab_sidecar", os.fspath(self.run_dir), "--lines", "--launched"]
        with (self.folder / "sidecar.log").open("ab") as output:
            self.processes["sidecar"] = self._popen(command, {}, output)

    def start_command(self, *arguments: str) -> subprocess.Popen[bytes]:
        """``unilab-metrics ARGUMENTS RUN``."""
        points = self._armed("command", self._points.get("command", ""))
        command = ["-m", "unilab_metrics", *arguments, os.fspath(self.run_dir)]
        return self._popen(command, points)

    def command(self, *arguments: str, timeout_s: float = 90.0) -> int:
        """The same, to its end; the exit code."""
        with self.start_command(*arguments) as process:
            try:
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def _armed(self, place: str, *points: str) -> dict[str, str]:
        tokens = self.tokens / place
        tokens.mkdir(exist_ok=True)
        return {POINTS_VARIABLE: " ".join(points), TOKENS_VARIABLE: os.fspath(tokens)}

    def lacking(self, *, but: tuple[str, ...] = ()) -> dict[str, int]:
        """How often the crash points have still to act, by place and name."""
        found: dict[str, int] = {}
        for place, text in self._points.items():
            # The helpers are started by rank 0, and one another.
            folder = self.tokens / ("learner-0" if place == "helpers" else place)
            acted = used(os.listdir(folder)) if folder.is_dir() else {}
            for point in parse(text).values():
                left = point.times - acted.get(point.name, 0)
                if left and point.name not in but:
                    found[f"{place} {point.name}"] = left
        return found

    def _popen(
        self, arguments: list[str], environment: Mapping[str, str], output: Any = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output or self._log,
            stderr=self._log,
            env={**self._environment, **environment},
            cwd=self.folder,
            start_new_session=True,
        )

    # --- looking after them --------------------------------------------------------------

    def turn(self) -> None:
        """Reap who died and start who is missing."""
        for place, process in list(self.processes.items()):
            status = process.poll()
            if status is None:
                continue
            del self.processes[place]
            if place == "sidecar":
                if self._has_sidecar and not self.is_finishing:
                    self.start_sidecar()
            elif status == 0:
                continue
            elif place == "learner-0":
                self._end_attempt()
                if not self.is_finishing:
                    self.start_attempt()
                return
            elif not self.is_finishing:
                self._start(place)
        time.sleep(_TURN_S)

    def _end_attempt(self) -> None:
        for place, process in list(self.processes.items()):
            if place != "sidecar":
                process.kill()
                process.wait()
                del self.processes[place]

    def until(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline_s, "did not happen in time"
            self.turn()

    def go_on(self, seconds: float) -> None:
        """Let the training run for a while."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.turn()

    def has_begun(self) -> bool:
        """Whether rank 0 is about to publish."""
        return any(self.ledgers.glob("learner-0-*.ledger"))

    def is_publishing(self) -> bool:
        """Whether every place has a process that has published something."""
        return all(place in self.processes and self._has_published(place) for place in self._places)

    # --- faults --------------------------------------------------------------------------

    def pid(self, place: str) -> int | None:
        """Of a training process, ``aggregator``, ``writer`` or ``sidecar``; ``None`` if dead."""
        if place in ("aggregator", "writer"):
            name = "aggregator.lease" if place == "aggregator" else "writer-tensorboard.lease"
            pid = owner_pid(bus_directory(self.run_dir) / name)
            # A test that holds the lease itself is no victim.
            return None if pid in (None, 0, os.getpid()) else pid
        process = self.processes.get(place)
        return None if process is None or process.poll() is not None else process.pid

    def send(self, number: signal.Signals, *places: str) -> list[int]:
        """Send a signal to all of them at once, as far as they live; their pids."""
        found = [(place, pid) for place in places if (pid := self.pid(place)) is not None]
        for place, pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            if number == signal.SIGKILL:
                self.kills.append((place, time.monotonic_ns()))
        return [pid for _, pid in found]

    def kill(self, *places: str) -> list[int]:
        return self.send(signal.SIGKILL, *places)

    # --- the end -------------------------------------------------------------------------

    def begin_end(self) -> None:
        """Tell the collectors to end; from here on nobody who dies is started again."""
        (self.ledgers / STOP_COLLECTORS).touch()
        self.is_finishing = True

    def finish(self) -> None:
        """The collectors end, then the learners, then the helpers."""
        self.begin_end()
        self.until(lambda: not self._living("collector"))
        # A launcher does not end a training of which a rank is still starting.
        self.until(lambda: all(map(self._has_published, self._living("learner"))))
        (self.ledgers / STOP_LEARNERS).touch()
        self.until(lambda: not self._living("learner"))
        self.end_sidecar()
        self.until(lambda: is_free(aggregator_lease(self.run_dir)))

    def end_sidecar(self) -> None:
        process = self.processes.pop("sidecar", None)
        self._has_sidecar = False
        if process is not None:
            process.terminate()
            process.wait(30)

    def _has_published(self, place: str) -> bool:
        ledger = self._ledger_of[place]
        return ledger.exists() and ledger.stat().st_size > 0

    def _living(self, role: str) -> list[str]:
        return [place for place in self.processes if place.startswith(role)]

    def close(self) -> None:
        """Whatever happened: nothing of it stays."""
        self.is_finishing = True
        pids = [self.pid(place) for place in ("aggregator", "writer")]
        for process in self.processes.values():
            process.kill()
            process.wait()
        for pid in [*pids, *map(self.pid, ("aggregator", "writer"))]:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._log.close()

    def newest_iteration(self) -> int:
        newest = 0
        for path in self.ledgers.glob("learner-*.ledger"):
            tail = path.read_text().rsplit("\n", 4)[:-1]
            words = [line.split() for line in tail if line.startswith("iteration ")]
            newest = max([newest, *(int(word[1]) for word in words if len(word) == 5)])
        return newest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
