"""Ranks of a training in processes of their own, steered line by line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import EventUpdate, HistoryEntry, Update

SCRIPT = """
import os, signal, sys, time, warnings
shift_s = [float(os.environ.get("SHIFT_S", "0"))]
real_time, real_time_ns = time.time, time.time_ns
time.time = lambda: real_time() + shift_s[0]
time.time_ns = lambda: real_time_ns() + int(shift_s[0] * 1e9)
import unilab_metrics as um
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "log":
        first, last, value = rest.split()
        for iteration in range(int(first), int(last) + 1):
            publisher.log({"Loss/value": float(value)}, iteration=iteration)
        answer = ""
    elif word == "shift":
        shift_s[0] = float(rest)
        answer = ""
    elif word == "close":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = repr(publisher.close(float(rest)))
        answer += " " + " ".join(str(w.message).replace(chr(10), " ") for w in caught)
    else:
        answer = repr(eval(rest)) if word == "eval" else exec(rest)
    print(word, answer, flush=True)
"""


class SteeredRank:
    """One rank. A context manager: whatever is left of it is killed at the end."""

    def __init__(self, run_dir: Path, rank: int, world_size: int, **environment: str) -> None:
        self.rank = rank
        self._errors = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(run_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"RANK": str(rank), "WORLD_SIZE": str(world_size)} | environment,
            start_new_session=True,
        )

    def __enter__(self) -> SteeredRank:  # noqa: PYI034 (Self is not in Python 3.10)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(ValueError):
            self.process.communicate()

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready(self) -> SteeredRank:
        """Once ``init()`` has returned."""
        self._hear("ready")
        return self

    def do(self, line: str) -> str:
        """One command; returns its answer."""
        self.tell(line)
        return self._hear(line.partition(" ")[0])

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def log(self, first: int, last: int | None = None, value: float | None = None) -> None:
        """Iterations from ``first`` to ``last``, with the rank as the value by default."""
        self.do(f"log {first} {first if last is None else last} {value or float(self.rank)}")

    def end(self, line: str = "close 30") -> str:
        """Close, and wait for the process; returns what ``close()`` said."""
        answer = self.do(line)
        self.process.communicate(timeout=60)
        return answer

    def kill(self) -> None:
        """SIGKILL; the zombie stays until the end."""
        os.kill(self.pid, signal.SIGKILL)

    def _hear(self, word: str) -> str:
        assert self.process.stdout is not None
        heard, _, answer = self.process.stdout.readline().strip().partition(" ")
        assert heard == word, (heard, answer, self._all_errors())
        return answer

    def _all_errors(self) -> str:
        self.process.kill()
        return self.process.communicate()[1]


@contextlib.contextmanager
def steered(run_dir: Path, world_size: int, **environment: str) -> Iterator[list[SteeredRank]]:
    """All ranks of a world, every one past its ``init()``."""
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(SteeredRank(run_dir, rank, world_size, **environment))
            for rank in range(world_size)
        ]
        yield [rank.ready() for rank in ranks]


def entries(run_dir: Path) -> list[HistoryEntry]:
    """The whole history so far."""
    found: list[HistoryEntry] = []
    bus = bus_directory(run_dir)
    if not any(bus.glob("history-*")):
        return found
    with HistoryReader(bus) as reader:
        while records := reader.poll():
            found += [record.entry for record in records]
    return found


def iterations(run_dir: Path, attempt: int | None = None) -> list[Update]:
    """The updates of an attempt, of all without one."""
    return [
        entry
        for entry in entries(run_dir)
        if isinstance(entry, Update) and attempt in (None, entry.attempt)
    ]


def told(run_dir: Path, kind: str) -> list[str]:
    """Texts of the run's events of a kind."""
    return [
        entry.frame.text
        for entry in entries(run_dir)
        if isinstance(entry, EventUpdate) and entry.frame.kind == kind
    ]
