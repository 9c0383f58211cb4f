"""Counts are exact, from threads and from signal handlers."""

from __future__ import annotations

import signal
import threading
import time

from unilab_metrics.publish.losses import BAD_VALUE, FORKED, Losses


def test_threads_lose_no_count() -> None:
    losses = Losses()
    threads = [
        threading.Thread(target=lambda: [losses.count(BAD_VALUE) for _ in range(2000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    losses.count(FORKED, 3)
    assert losses.counts == {BAD_VALUE: 8000, FORKED: 3}


def test_a_signal_handler_may_count_in_the_middle_of_a_count() -> None:
    losses = Losses()
    handled = 0

    def handler(number: int, frame: object) -> None:
        nonlocal handled
        handled += 1
        losses.count(FORKED)

    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    counted = 0
    deadline = time.monotonic() + 0.2
    try:
        while not (counted and handled) or time.monotonic() < deadline:
            losses.count(BAD_VALUE)
            counted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert losses.counts == {BAD_VALUE: counted, FORKED: handled}


def test_a_repeated_error_is_kept_once_and_only_the_newest_are_kept() -> None:
    losses = Losses()
    for _ in range(5):
        losses.note(OSError("disk"))
    for number in range(40):
        losses.note(OSError(str(number)))
    assert len(losses.errors) == 16
    assert losses.errors[-1] == "OSError: 39"
    assert losses.counts == {}
