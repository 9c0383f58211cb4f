"""A signal that a process and its group get at once is one request; a second one later is another."""

from __future__ import annotations

import os
import signal

import pytest

from unilab_metrics.run.launching import requests
from unilab_metrics.run.launching.requests import SAME_S, Requests


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(requests, "time", made)
    return made


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_same_stop_twice_at_once_is_one_and_again_later_two(
    number: signal.Signals, clock: Clock
) -> None:
    asked = Requests()
    with asked.taken():
        for _ in range(2):
            os.kill(os.getpid(), number)
        assert asked.numbers == [number]
        clock.now_s = SAME_S
        os.kill(os.getpid(), number)
    assert asked.numbers == [number, number]


def test_two_kinds_of_stops_are_two_requests(clock: Clock) -> None:
    asked = Requests()
    with asked.taken():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert asked.numbers == [signal.SIGINT, signal.SIGTERM]


def test_each_signal_that_means_something_to_the_command_alone_is_passed_on(clock: Clock) -> None:
    asked = Requests()
    with asked.taken(signal.SIGUSR1):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)
    assert asked.numbers == [signal.SIGUSR1] * 3
