"""A helper is started again when it is gone, later each time, and never twice at once."""

from __future__ import annotations

import subprocess
from typing import Any

from unilab_metrics.errors import ExitCode
from unilab_metrics.helper_life import Heard, Silence, Trouble
from unilab_metrics.run.supervision import Backoff, Supervisor


class FakeProcess:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.kills = 0

    def poll(self) -> int | None:
        return self.status

    def kill(self) -> None:
        self.kills += 1
        self.status = -9


class Bench:
    """A supervisor with a clock and helpers in our hands."""

    def __init__(self, *, is_final: bool = True, hung_after_s: int = 0) -> None:
        self.now_s = 100.0
        self.processes: list[FakeProcess] = []
        self.reports: list[str] = []
        self.taken = False
        self.broken = False
        self.trouble = ""
        self.holder: int | None = None
        self.supervisor = Supervisor(
            self.start,
            is_taken=lambda: self.taken,
            report=lambda trouble: self.reports.append(str(trouble)),
            last_words=lambda: "error: no room",
            holder=lambda: self.holder,
            is_final=is_final,
            hung_after_s=hung_after_s,
            clock=lambda: self.now_s,
        )

    def start(self) -> subprocess.Popen[bytes]:
        if self.broken:
            raise FileNotFoundError("no such interpreter")
        self.processes.append(FakeProcess(1000 + len(self.processes)))
        process: Any = self.processes[-1]
        return process

    def after(self, seconds: float, *, hurry: bool = False, heard: Heard | None = None) -> int:
        self.now_s += seconds
        self.trouble = self.supervisor(hurry=hurry, heard=heard)
        return len(self.processes)

    def listen(self, seconds: int, heard: Heard | None = None) -> None:
        for _ in range(seconds):
            self.after(1, heard=heard)

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
    assert len(bench.reports) == 31
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
    assert bench.after(1) == 1
    assert "no such folder" in bench.trouble
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
        bench.after(30)
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


def test_pauses_double_up_to_30_s_and_end_after_30_failures() -> None:
    backoff = Backoff()
    delays = [backoff.after_end(0.1) for _ in range(31)]
    assert delays == [1, 2, 4, 8, 16] + [30] * 25 + [None]


def test_in_a_hurry_the_pause_stays_at_a_second() -> None:
    backoff = Backoff(hurry=True)
    assert {backoff.after_end(0.1) for _ in range(50)} == {1}


def test_a_helper_that_lived_for_10_s_starts_the_count_anew() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.after_end(0.1)
    assert backoff.after_end(11) == 1


def test_a_helper_that_does_not_answer_is_killed_and_started_again() -> None:
    bench = Bench(hung_after_s=15)
    bench.after(0)
    heard = Heard(1000, 7.0)
    bench.listen(15, heard)
    assert bench.processes[0].kills == 0
    bench.listen(1, heard)
    assert bench.processes[0].kills == 1
    bench.listen(1, heard)
    assert bench.reports == ["did not answer for 15 s and was killed; next start in 1 s"]
    bench.listen(1, heard)
    assert len(bench.processes) == 2
    bench.listen(60, heard)
    assert bench.processes[1].kills == 0, "what was heard of the first one"


def test_a_word_in_time_saves_a_helper() -> None:
    bench = Bench(hung_after_s=15)
    bench.after(0)
    for word in range(10):
        bench.listen(14, Heard(1000, float(word)))
    assert bench.processes[0].kills == 0


def test_the_time_in_which_the_listener_was_suspended_does_not_count() -> None:
    bench = Bench(hung_after_s=15)
    bench.after(0)
    heard = Heard(1000, 7.0)
    bench.listen(10, heard)
    bench.after(3600, heard=heard)
    assert bench.processes[0].kills == 0
    bench.listen(4, heard)
    assert bench.processes[0].kills == 0
    bench.listen(1, heard)
    assert bench.processes[0].kills == 1


def test_many_calls_a_second_count_one() -> None:
    silence = Silence(3, 0.0)
    heard = Heard(1, 0.0)
    assert not any(silence.is_too_long(heard, tick / 10) for tick in range(30))
    assert silence.seconds == 2
    assert silence.is_too_long(heard, 3.0)


def test_a_process_that_is_not_our_child_is_never_killed() -> None:
    bench = Bench(hung_after_s=15)
    bench.after(0)
    bench.listen(100, Heard(4711, 7.0))
    assert bench.processes[0].kills == 0
    bench.die(-9)
    bench.taken = True
    bench.listen(100, Heard(1000, 7.0))
    assert bench.processes[0].kills == 0
    assert len(bench.processes) == 1


def test_one_that_was_never_heard_is_silent_only_while_it_holds_its_lease() -> None:
    bench = Bench(hung_after_s=60)
    bench.after(0)
    bench.listen(200)
    assert bench.processes[0].kills == 0, "it may wait for another one"
    bench.holder = 1000
    bench.listen(60)
    assert bench.processes[0].kills == 0
    bench.listen(1)
    assert bench.processes[0].kills == 1


def test_helpers_that_hang_again_and_again_are_given_up() -> None:
    bench = Bench(hung_after_s=15)
    bench.after(0)
    for _ in range(3000):
        bench.listen(1, Heard(999 + len(bench.processes), 7.0))
    assert bench.supervisor.is_finished
    assert len(bench.processes) == 31
    assert bench.reports[-1].endswith("given up after 30 restarts")


def test_troubles_wait_for_who_asks() -> None:
    supervisor = Supervisor(_refuse, is_taken=lambda: False)
    supervisor()
    assert supervisor.take_troubles() == [
        Trouble("could not be started: no room", "next start in 1 s")
    ]
    assert supervisor.take_troubles() == []


def _refuse() -> subprocess.Popen[bytes]:
    raise OSError("no room")
