"""Subscribers that stand still cost nobody anything, and are current again within seconds
(case BR-33); a follower, lines in a pipe, and the screen on a terminal."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_runs import aggregator_pid, processes
from follower import Follower
from pty_terminals import PtyTerminal
from real_runs import until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport.rendezvous import aggregator_lease
from unilab_schema.updates import Update

UPDATES = 90_000
"""One each millisecond, so that there are more than 60,000 while the subscribers stand still."""
STOPPED_S = 60.0
BACK_S = 30.0
CATCH_UP_S = 120.0
"""Far more than it takes where nothing else runs."""
MOST_MB = 50.0
"""More than before, of any process while subscribers stand still; afterwards 10."""

LEARNER = f"""
import sys, time
import unilab_metrics as um
tags = [f"Slow/{{number:03d}}" for number in range(250)]
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=sys.argv[1])
start = time.monotonic()
for iteration in range({UPDATES}):
    wait_s = start + iteration / 1000 - time.monotonic()
    if wait_s > 0:
        time.sleep(wait_s)
    publisher.log(dict.fromkeys(tags, float(iteration % 1000)), iteration=iteration)
print(time.monotonic() - start, flush=True)
sys.stdin.read()
assert publisher.close(120)
"""


def memory_mb(watched: dict[str, psutil.Process]) -> dict[str, float]:
    return {name: process.memory_info().rss / 1e6 for name, process in watched.items()}


def grown(now: dict[str, float], before: dict[str, float], limit_mb: float) -> dict[str, float]:
    """Who has more than so much above what it had."""
    return {name: now[name] - mb for name, mb in before.items() if now[name] - mb > limit_mb}


def newest_iteration(run_dir: Path) -> int:
    """The newest one that a viewer gets now."""
    with Subscriber.attach(run_dir, recent=1) as viewer:
        while True:
            for record in viewer.poll(200):
                if isinstance(record.entry, Update):
                    return record.entry.iteration


def shown_iteration(terminal: PtyTerminal) -> int:
    """The one in the title of the screen, -1 if there is none."""
    terminal.read(0.1)
    found = re.search(r"iter (\d+)", terminal.screen.text)
    return int(found[1]) if found is not None else -1


def written_steps(run_dir: Path) -> list[int]:
    """The step of each event that holds values of an iteration, read without any library."""
    steps: list[int] = []
    for path in sorted(run_dir.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        at = 0
        while at + 12 <= len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = data[at + 12 : at + 12 + size]
            at += 16 + size
            if b"Slow/000" in event:
                steps.append(_step(event))
    return steps


def _step(event: bytes) -> int:
    # Field 1 is the wall time, field 2 the step; a step of 0 is left out.
    at, number, shift = 9, 0, 0
    if event[at] != 0x10:
        return 0
    while True:
        at += 1
        number |= (event[at] & 0x7F) << shift
        shift += 7
        if event[at] < 0x80:
            return number


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_subscribers_that_stand_still_for_a_minute_cost_nobody_memory(
    tmp_path: Path, run_dir: Path
) -> None:
    learner: subprocess.Popen[Any] = subprocess.Popen(
        [sys.executable, "-c", LEARNER, str(run_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    stopped: list[subprocess.Popen[Any]] = []
    terminal: PtyTerminal | None = None
    try:
        aggregator = aggregator_pid(run_dir)
        follower = Follower(tmp_path / "follower.log")
        with (tmp_path / "follower.log").open("wb") as output:
            subscriber = subprocess.Popen(Follower.command(run_dir), stdout=output)
        view_log = tmp_path / "view.log"
        with view_log.open("wb") as output:
            view = subprocess.Popen(
                [sys.executable, "-m", "unilab_sidecar", str(run_dir), "--lines"], stdout=output
            )
        terminal = PtyTerminal(
            sys.executable, "-m", "unilab_sidecar", str(run_dir), columns=120, rows=40,
            XDG_STATE_HOME=str(tmp_path),
        )  # fmt: skip
        screen = terminal
        stopped += [subscriber, view, screen.process]
        until(lambda: follower.said().seen, 30)
        until(lambda: b"iter " in view_log.read_bytes(), 30)
        until(lambda: shown_iteration(screen) >= 0, 30)
        until(lambda: processes("write"), 30)
        watched = {
            "learner": psutil.Process(learner.pid),
            "aggregator": psutil.Process(aggregator),
            "writer": processes("write")[0],
            "subscriber": psutil.Process(subscriber.pid),
            "lines": psutil.Process(view.pid),
            "screen": psutil.Process(screen.process.pid),
        }
        # Until their windows are full, and the pools of their memory are.
        screen.quiet_for(20)
        before = memory_mb(watched)
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        most = before
        end_s = time.monotonic() + STOPPED_S
        while time.monotonic() < end_s:
            time.sleep(1)
            now = memory_mb(watched)
            most = {name: max(most[name], now[name]) for name in now}
        assert grown(most, before, MOST_MB) == {}
        shown = view_log.read_bytes().count(b"\n")
        for process in stopped:
            process.send_signal(signal.SIGCONT)
        began_s = time.monotonic()
        newest = newest_iteration(run_dir)
        assert follower.said().newest < newest - 5_000
        until(lambda: follower.is_current(newest), CATCH_UP_S)
        current_s = time.monotonic() - began_s
        until(lambda: shown_iteration(screen) >= newest, CATCH_UP_S)
        until(lambda: view_log.read_bytes().count(b"\n") > shown, 30)
        shown_s = time.monotonic() - began_s
        after = memory_mb(watched)
        while grown(after, before, 10.0) and time.monotonic() - began_s < BACK_S:
            screen.quiet_for(0.5)
            after = memory_mb(watched)
        figures = [f"{n} {before[n]:.0f}/{most[n]:.0f}/{after[n]:.0f}" for n in watched]
        print(f"MB before/most/after: {', '.join(figures)}")
        print(f"current after {current_s:.1f} s, on the screen after {shown_s:.1f} s")
        assert learner.stdout is not None
        assert grown(after, before, 10.0) == {}
        assert shown_iteration(screen) >= newest
        screen.type("q")
        assert screen.wait(30) == 0
        print(f"published in {float(learner.stdout.readline()):.1f} s")
        learner.communicate(timeout=150)
        assert learner.returncode == 0
        assert subscriber.wait(60) == 0
        view.wait(60)
        assert follower.is_current(UPDATES - 1)
    finally:
        for process in (learner, *stopped):
            if process.poll() is None:
                process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if terminal is not None:
            terminal.close()
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)), 60)
    assert sorted(written_steps(run_dir)) == list(range(UPDATES))
