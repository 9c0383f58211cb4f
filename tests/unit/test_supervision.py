"""A helper is started again when it is gone, later each time, and never twice at once."""

from __future__ import annotations

import subprocess
from typing import Any

from unilab_metrics.errors import ExitCode
from unilab_metrics.run.supervision import Backoff, Supervisor


class FakeProcess:
    def __init__(self) -> None:
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status


class Bench:
    """A supervisor with a clock and helpers in our hands."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.processes: list[FakeProcess] = []
        self.reports: list[str] = []
        self.taken = False
        self.broken = False
        self.supervisor = Supervisor(
            self.start,
            is_taken=lambda: self.taken,
            report=self.reports.append,
            clock=lambda: self.now_s,
        )

    def start(self) -> subprocess.Popen[bytes]:
        if self.broken:
            raise FileNotFoundError("no such interpreter")
        self.processes.append(FakeProcess())
        process: Any = self.processes[-1]
        return process

    def after(self, seconds: float) -> int:
        self.now_s += seconds
        self.supervisor()
        return len(self.processes)


def test_starts_at_the_first_call_and_leaves_a_living_helper_alone() -> None:
    bench = Bench()
    assert bench.after(0) == 1
    assert bench.after(3600) == 1


def test_a_killed_helper_is_started_again_after_a_pause() -> None:
    bench = Bench()
    bench.after(0)
    bench.processes[0].status = -9
    assert bench.after(1) == 1
    assert "signal 9" in bench.reports[0]
    assert bench.after(0.9) == 1
    assert bench.after(0.2) == 2


def test_a_clean_end_is_the_end() -> None:
    bench = Bench()
    bench.after(0)
    bench.processes[0].status = ExitCode.OK
    assert bench.after(3600) == 1
    assert bench.after(3600) == 1
    assert bench.supervisor.is_finished
    assert bench.reports == []


def test_a_usage_error_is_not_repeated() -> None:
    bench = Bench()
    bench.after(0)
    bench.processes[0].status = ExitCode.USAGE
    assert bench.after(3600) == 1
    assert bench.supervisor.is_finished


def test_while_another_one_is_at_work_none_is_started() -> None:
    bench = Bench()
    bench.taken = True
    assert bench.after(0) == 0
    assert bench.after(60) == 0
    bench.taken = False
    assert bench.after(60) == 1


def test_a_refused_helper_waits_until_the_other_is_gone() -> None:
    bench = Bench()
    bench.after(0)
    bench.processes[0].status = ExitCode.REFUSED
    bench.taken = True
    assert bench.after(1) == 1
    assert bench.after(600) == 1
    bench.taken = False
    assert bench.after(2) == 2
    assert bench.reports == []


def test_a_helper_that_cannot_be_started_never_raises() -> None:
    bench = Bench()
    bench.broken = True
    for _ in range(1000):
        bench.after(1)
    assert bench.processes == []
    assert bench.supervisor.is_finished
    assert "no such interpreter" in bench.reports[0]
    assert "given up" in bench.reports[-1]


def test_pauses_double_up_to_30_s_and_end_after_20_failures() -> None:
    backoff = Backoff()
    delays = [backoff.after_end(0.1) for _ in range(21)]
    assert delays == [1, 2, 4, 8, 16] + [30] * 15 + [None]


def test_a_helper_that_lived_a_minute_starts_the_count_anew() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.after_end(0.1)
    assert backoff.after_end(61) == 1
