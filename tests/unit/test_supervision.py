"""A helper is started again when it is gone, later each time, and never twice at once."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from unilab_metrics.errors import ExitCode
from unilab_metrics.run.supervision import Backoff, Supervisor


class FakeProcess:
    def __init__(self) -> None:
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status


class Bench:
    """A supervisor with a clock and helpers in our hands."""

    def __init__(self, *, is_final: bool = True) -> None:
        self.now_s = 100.0
        self.processes: list[FakeProcess] = []
        self.reports: list[str] = []
        self.taken = False
        self.broken = False
        self.trouble = ""
        self.supervisor = Supervisor(
            self.start,
            is_taken=lambda: self.taken,
            report=self.reports.append,
            last_words=lambda: "error: no room",
            is_final=is_final,
            clock=lambda: self.now_s,
        )

    def start(self) -> subprocess.Popen[bytes]:
        if self.broken:
            raise FileNotFoundError("no such interpreter")
        self.processes.append(FakeProcess())
        process: Any = self.processes[-1]
        return process

    def after(self, seconds: float, *, hurry: bool = False) -> int:
        self.now_s += seconds
        self.trouble = self.supervisor(hurry=hurry)
        return len(self.processes)

    def die(self, status: int) -> None:
        self.processes[-1].status = status


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


def test_a_helper_refused_by_nobody_at_work_has_failed() -> None:
    bench = Bench()
    bench.after(0)
    bench.die(ExitCode.REFUSED)
    assert bench.after(1) == 1
    assert bench.trouble == "ended with 5 (error: no room)"
    assert bench.reports == [f"{bench.trouble}; next start in 1 s"]
    assert bench.after(1) == 2


def test_a_helper_that_cannot_be_started_never_raises() -> None:
    bench = Bench()
    bench.broken = True
    for _ in range(1000):
        bench.after(1)
    assert bench.processes == []
    assert bench.supervisor.is_finished
    assert "no such interpreter" in bench.reports[0]
    assert "given up" in bench.reports[-1]
    assert bench.trouble == "could not be started: no such interpreter"


def test_a_failed_lookup_ends_nothing() -> None:
    bench = Bench()
    bench.after(0)

    def fail() -> bool:
        raise OSError("no such folder")

    bench.supervisor._is_taken = fail
    bench.die(-9)
    bench.after(1)
    with pytest.raises(OSError, match="no such folder"):
        bench.after(1)
    bench.supervisor._is_taken = lambda: False
    assert bench.after(1) == 2


def test_an_end_that_is_not_the_last_word_is_followed_by_another_start() -> None:
    bench = Bench(is_final=False)
    bench.after(0)
    bench.die(ExitCode.OK)
    assert bench.after(3600) == 1
    assert not bench.supervisor.is_finished
    assert bench.trouble == "ended while this process goes on"
    assert bench.after(1) == 2


def test_an_end_in_a_hurry_is_no_trouble_and_repeated_only_if_nobody_stops_calling() -> None:
    bench = Bench(is_final=False)
    bench.after(0)
    bench.after(60, hurry=True)
    bench.die(ExitCode.OK)
    assert bench.after(0, hurry=True) == 1
    assert (bench.trouble, bench.reports) == ("", [])
    assert bench.after(1, hurry=True) == 2


def test_in_a_hurry_a_waiting_helper_is_started_at_once_and_then_every_second() -> None:
    bench = Bench()
    bench.after(0)
    for _ in range(4):
        bench.die(-9)
        bench.after(0)
        bench.after(5)
    bench.die(-9)
    assert bench.after(0) == 5
    assert bench.after(0.1, hurry=True) == 6
    for starts in range(7, 30):
        bench.die(-9)
        assert bench.after(0, hurry=True) == starts - 1
        assert bench.after(1, hurry=True) == starts


def test_in_a_hurry_a_living_helper_is_left_alone() -> None:
    bench = Bench()
    bench.after(0)
    for _ in range(20):
        assert bench.after(1, hurry=True) == 1


def test_in_a_hurry_one_that_was_given_up_gets_another_chance_but_a_useless_one_none() -> None:
    bench = Bench()
    bench.broken = True
    for _ in range(1000):
        bench.after(1)
    bench.broken = False
    assert bench.after(0, hurry=True) == 1
    bench.die(ExitCode.USAGE)
    assert bench.after(1, hurry=True) == 1
    bench = Bench()
    bench.after(0)
    bench.die(ExitCode.USAGE)
    bench.after(1)
    assert bench.after(1, hurry=True) == 1
    assert bench.supervisor.is_finished


def test_trouble_is_forgotten_when_the_next_helper_lives_for_long() -> None:
    bench = Bench()
    bench.after(0)
    bench.die(1)
    bench.after(0)
    bench.after(1)
    assert bench.trouble == "ended with 1 (error: no room)"
    bench.after(9)
    assert bench.trouble
    bench.after(1)
    assert bench.trouble == ""


def test_pauses_double_up_to_5_s_and_end_after_100_failures() -> None:
    backoff = Backoff()
    delays = [backoff.after_end(0.1) for _ in range(101)]
    assert delays == [1, 2, 4] + [5] * 97 + [None]


def test_a_helper_that_lived_for_10_s_starts_the_count_anew() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.after_end(0.1)
    assert backoff.after_end(11) == 1
