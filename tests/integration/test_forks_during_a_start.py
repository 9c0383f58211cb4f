"""A helper's start that hangs costs a training one wait, not one for each of its forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from unilab_metrics.publish import forking

WAIT_S = 0.5
FORKS = 6


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_START_S", WAIT_S)


@contextmanager
def hanging_start() -> Iterator[None]:
    begun, may_end = threading.Event(), threading.Event()

    def start() -> None:
        with forking.unforked():
            begun.set()
            may_end.wait(30)

    thread = threading.Thread(target=start)
    thread.start()
    begun.wait(30)
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def test_only_the_first_fork_during_a_start_waits_for_it() -> None:
    with hanging_start():
        began_s = monotonic()
        for _ in range(FORKS):
            fork()
        assert WAIT_S <= monotonic() - began_s < (FORKS - 1) * WAIT_S


def test_the_next_start_is_waited_for_again() -> None:
    for _ in range(2):
        with hanging_start():
            began_s = monotonic()
            fork()
            assert monotonic() - began_s >= WAIT_S


class Locked:
    """As a spool: locked from before a fork until after it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked = threading.Semaphore(0)

    def before_fork(self) -> None:
        self.asked.release()
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        self.lock.release()

    def after_fork_in_child(self) -> None:
        pass


class Slow(Locked):
    """Its first fork ends when another thread has begun one."""

    def __init__(self, other: Locked) -> None:
        super().__init__()
        self._other: Locked | None = other

    def after_fork_in_parent(self) -> None:
        other, self._other = self._other, None
        if other is not None:
            for _ in range(2):
                other.asked.acquire(timeout=30)
        super().after_fork_in_parent()


def test_threads_that_fork_during_a_start_leave_nothing_locked() -> None:
    locked = Locked()
    slow = Slow(locked)
    forking.watch(locked)
    forking.watch(slow)
    try:
        with hanging_start():
            another = threading.Thread(target=fork)
            another.start()
            slow.asked.acquire(timeout=30)
            fork()
            another.join(30)
        for thing in (locked, slow):
            assert thing.lock.acquire(timeout=2)
    finally:
        forking.forget(locked)
        forking.forget(slow)
