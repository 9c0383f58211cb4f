"""Trainings whose directories lie on file systems that are too small, read-only or broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import case_runs
import pytest
from real_runs import DRAIN_S, until

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.control import Head

PROGRAM = """
import json, resource, sys, time
import unilab_metrics as um
import unilab_metrics.run.session  # else a part of init()

run_dir, file_bytes = sys.argv[1], int(sys.argv[2])
if file_bytes:
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
before = time.perf_counter()
publisher = um.init(algorithm="sac", run_dir=run_dir, rank=0, world_size=1)
calls = 0

def answer(**facts):
    pages = int(open("/proc/self/statm").read().split()[1])
    facts |= {"calls": calls, "drops": publisher.losses.counts, "rss": pages * 4096}
    facts |= {"errors": list(publisher.losses.errors)}
    print(json.dumps(facts), flush=True)

answer(s=time.perf_counter() - before)
for line in sys.stdin:
    word, *numbers = line.split()
    if word == "log":
        costs = []
        for _ in range(int(numbers[0])):
            calls += 1
            values = {f"Loss/value_{n}": calls + n for n in range(20)}
            began = time.perf_counter_ns()
            publisher.log(values, iteration=calls)
            costs.append((time.perf_counter_ns() - began) / 1e3)
            time.sleep(float(numbers[1]))
        costs.sort()
        answer(median_us=costs[len(costs) // 2], most_us=costs[-1])
    elif word == "point":
        for n in range(int(numbers[0])):
            publisher.point("Point/value", n, n)
        answer()
    else:
        before = time.perf_counter()
        delivered = publisher.close(float(numbers[0]))
        answer(delivered=delivered, s=time.perf_counter() - before)
        break
"""


class SteeredTraining:
    """A training of one rank that logs when the test says so; each call of :meth:`say` gives
    what it measured. ``file_bytes``: its limit for files, 0 for none."""

    def __init__(self, run_dir: Path, *, file_bytes: int = 0, **environment: str) -> None:
        self.run_dir = run_dir
        self.process = case_runs.start(PROGRAM, run_dir, str(file_bytes), **environment)
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors)
        self._reader.start()
        self.opened = self._answer()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(30)
            self._reader.join()
            pytest.fail(f"the training ended: {''.join(self._errors)}")
        return json.loads(line)

    def say(self, words: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self._answer()

    def log(self, calls: int, pause_s: float = 0.001) -> dict[str, Any]:
        return self.say(f"log {calls} {pause_s}")

    def close(self, timeout_s: float = 30.0) -> tuple[dict[str, Any], str]:
        """What it measured, and what it said on its error output in all its life."""
        facts = self.say(f"close {timeout_s}")
        assert self.process.wait(30) == 0
        self._reader.join()
        self._let_go()
        return facts, "".join(self._errors)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._reader.join()
        self._let_go()

    def _let_go(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


@contextmanager
def training(run_dir: Path, **options: Any) -> Generator[SteeredTraining, None, None]:
    made = SteeredTraining(run_dir, **options)
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def small_disk(path: Path, kib: int, options: str = "") -> Generator[Path, None, None]:
    """A file system of its own at ``path``; the test is skipped where none can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    mount = f"size={kib}k,mode=0700,uid={os.getuid()}{options}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", mount, "tmpfs", os.fspath(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", os.fspath(path)], check=True)


def remount(path: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", os.fspath(path)], check=True)


@contextmanager
def filled(path: Path, leave_bytes: int = 0) -> Generator[None, None, None]:
    """Somebody else's file that takes all the room there, but for ``leave_bytes``."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    if leave_bytes:
        os.truncate(ballast, max(ballast.stat().st_size - leave_bytes, 0))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def watched(run_dir: Path) -> Generator[Subscriber, None, None]:
    """A viewer of a live run."""
    found: list[Subscriber] = []

    def attach() -> bool:
        with suppress(UnilabMetricsError):
            found.append(Subscriber.attach(run_dir))
        return bool(found)

    until(attach)
    try:
        yield found[0]
    finally:
        found[0].close()


def head_with(viewer: Subscriber, condition: Any, timeout_s: float = DRAIN_S) -> Head:
    """The first announcement of which the condition is true."""
    found: list[Head] = []

    def look() -> bool:
        viewer.poll(100)
        head = viewer.head
        if head is not None and condition(head):
            found.append(head)
        return bool(found)

    until(look, timeout_s)
    return found[0]


def log_of(run_dir: Path, name: str = "aggregator.log") -> str:
    return (bus_directory(run_dir) / name).read_text()


def complete(run_dir: Path) -> None:
    """What a user does with a run that was cut off."""
    command = [sys.executable, "-m", "unilab_metrics", "recover", os.fspath(run_dir)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
