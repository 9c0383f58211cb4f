"""A run with thousands of tags on a screen: opening it, keys, scrolling, leaving.

    .venv/bin/python benchmarks/bench_many_tags.py [--tags 12345] [--names mixed] [--rate 2]

Real processes: a training that logs, its aggregator, and the sidecar on a pseudo-terminal. Of each
step the time until the screen says so, and the processor time that the sidecar has taken until
then, of all its threads; what a machine does beside it is in the former only. Each is done
``--times`` times: the median, in brackets the smallest and the greatest.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyte
from bench_sidecar import HERE, TAKE_TERMINAL, environ

SIZE, LARGER = (120, 40), (160, 48)
PATIENCE_S = 30.0
QUIET_S = 1.2
DEAR = "/(.|0)+(0|.)+x$/"
_FIRST = "Losses and policy"


class Taken(NamedTuple):
    """Until the screen said so."""

    wall_s: float
    cpu_s: float


class Watched:
    """The sidecar on a pseudo-terminal."""

    def __init__(self, *command: str | Path) -> None:
        self._ours, its = pty.openpty()
        self._screen = pyte.Screen(*SIZE)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(SIZE)
        self._began_s = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            stdin=its, stdout=its, stderr=its, start_new_session=True, env=environ(),
        )  # fmt: skip
        os.close(its)

    def resize(self, size: tuple[int, int]) -> None:
        """The terminal gets another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._screen.resize(size[1], size[0])

    def typed(self, keys: bytes) -> None:
        """Keys."""
        os.write(self._ours, keys)

    def opened(self, is_there: Callable[[str], bool] = lambda text: _FIRST in text) -> Taken:
        """Until its first picture, or another one."""
        return self._until(is_there, self._began_s, 0.0)

    def after(self, act: Callable[[], object], is_there: Callable[[str], bool]) -> Taken:
        """From ``act`` until the screen is as wanted."""
        self.read_for(QUIET_S)
        cpu_s, began_s = self.cpu_s(), time.monotonic()
        act()
        return self._until(is_there, began_s, cpu_s)

    def after_keys(self, keys: bytes, words: str) -> Taken:
        """From the keys until ``words`` are there."""
        return self.after(lambda: self.typed(keys), lambda text: words in text)

    def left(self, act: Callable[[], object]) -> Taken:
        """Until it has ended."""
        self.read_for(QUIET_S)
        cpu_s, began_s = self.cpu_s(), time.monotonic()
        act()
        pid = 0
        while not pid:
            self.read_for(0.005)
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._ours)
        return Taken(time.monotonic() - began_s, usage.ru_utime + usage.ru_stime - cpu_s)

    def cpu_s(self) -> float:
        """Of all threads of it and of its children, from the scheduler: the clock of ``stat`` has
        ticks of 10 ms."""
        pids, found = [str(self.process.pid)], 0
        while pids:
            for task in Path(f"/proc/{pids.pop()}/task").glob("*"):
                found += int((task / "schedstat").read_text().split()[0])
                pids += (task / "children").read_text().split()
        return found / 1e9

    def read_for(self, seconds: float) -> None:
        """Takes what comes within that time."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if select.select([self._ours], [], [], left_s)[0]:
                try:
                    self._stream.feed(os.read(self._ours, 1 << 20))
                except OSError:  # it has ended
                    break

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self._screen.display)

    def _until(self, is_there: Callable[[str], bool], began_s: float, cpu_s: float) -> Taken:
        while not is_there(self.text):
            if time.monotonic() > began_s + PATIENCE_S:
                sys.exit(f"after {PATIENCE_S:.0f} s still\n{self.text}")
            self.read_for(0.005)
        return Taken(time.monotonic() - began_s, self.cpu_s() - cpu_s)


def main() -> None:
    """Print a line per step."""
    parser = argparse.ArgumentParser(description="Thousands of tags on a screen.")
    parser.add_argument("--tags", type=int, default=12_345)
    parser.add_argument("--names", default="mixed")
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="um-bench-", ignore_cleanup_errors=True) as directory:
        run_dir = Path(directory) / "run"
        command = [HERE / "sidecar_load.py", run_dir, options.rate, options.tags, options.names]
        load = subprocess.Popen([sys.executable, *map(str, command)], stdin=subprocess.PIPE)
        try:
            while not (run_dir / "bus" / "bus.json").exists():
                time.sleep(0.05)
            time.sleep(5.0)
            steps: dict[str, list[Taken]] = {}
            for turn in range(options.times):
                for name, taken in _steps(run_dir, turn):
                    steps.setdefault(name, []).append(taken)
            for name, all_taken in steps.items():
                print(f"{name:<28} {words(all_taken)}")
        finally:
            load.communicate(timeout=60)


def words(taken: list[Taken]) -> str:
    """The medians and ranges."""
    walls, cpus = [one.wall_s * 1e3 for one in taken], [one.cpu_s * 1e3 for one in taken]
    made = f"{statistics.median(walls):6.0f} ms ({min(walls):.0f} to {max(walls):.0f})"
    if any(cpus):
        made += f"   cpu {statistics.median(cpus):6.1f} ms ({min(cpus):.1f} to {max(cpus):.1f})"
    return made


def _steps(run_dir: Path, turn: int) -> Iterator[tuple[str, Taken]]:
    watched = Watched(sys.executable, "-m", "unilab_sidecar", run_dir)
    yield "the first picture", watched.opened()
    watched.read_for(2.0)
    began_s, cpu_s = time.monotonic(), watched.cpu_s()
    watched.read_for(4.0)
    share = (watched.cpu_s() - cpu_s) / (time.monotonic() - began_s)
    yield "a second of being open", Taken(1.0, share)
    yield "/ for a filter", watched.after_keys(b"/", "words, !not")
    for typed in ("0", "00", "001", "0019"):
        yield "a letter of it", watched.after_keys(typed[-1:].encode(), f"Filter {typed}")
    yield "Esc", watched.after_keys(b"\x1b", "1 OVERVIEW")
    watched.typed(b"/")
    yield "a dear pattern, pasted", watched.after_keys(DEAR.encode(), f"Filter {DEAR}")
    yield "Esc", watched.after_keys(b"\x1b", "1 OVERVIEW")
    yield (
        "a page down",
        watched.after(lambda: watched.typed(b"\x1b[6~"), lambda now: _FIRST not in now),
    )
    yield "the charts", watched.after_keys(b"2", "Charts")
    yield "the overview", watched.after_keys(b"1", "1 OVERVIEW")
    yield (
        "a larger terminal",
        watched.after(lambda: watched.resize(LARGER), lambda now: "╮" in now.splitlines()[0][-2:]),
    )
    name = ("q", "Ctrl+C", "SIGTERM")[turn % 3]
    keys = {"q": b"q", "Ctrl+C": b"\x03"}
    if name in keys:
        yield name, watched.left(lambda: watched.typed(keys[name]))
    else:
        yield name, watched.left(lambda: watched.process.send_signal(signal.SIGTERM))


if __name__ == "__main__":
    main()
