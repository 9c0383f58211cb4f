"""A run whose aggregator ends it and goes, between two looks of a viewer, was not cut off."""

from __future__ import annotations

import threading

import pytest
from sample_run import FakeSource

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.printed.plain import run_plain


class EndsUnseen(FakeSource):
    """Nobody is heard; the end is in the files, which are looked at again ``late`` polls later."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self.head, self.connected = None, False
        self._late = late
        self._has_gone = threading.Event()
        self.reads_files = False

    def go(self) -> tuple[str, ...]:
        self._has_gone.set()
        return ("the aggregator (pid 7)",)

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        if not self._has_gone.is_set():
            records, self._waiting = self._waiting, []
            return records
        if self._late > 0:
            self._late -= 1
            threading.Event().wait(timeout_ms / 1000)
            return []
        self.reads_files = True
        if self._run.ended is None:
            return [self._run.end()]
        threading.Event().wait(timeout_ms / 1000)
        return []


@pytest.mark.parametrize("late", [0, 8])
def test_lines_of_a_run_that_has_just_ended_do_not_say_that_it_was_cut_off(late: int) -> None:
    source = EndsUnseen(late)
    feed = Feed(lambda: source, wait_for_bus=False, find_abandoned=source.go)
    thread = threading.Thread(target=feed.run)
    thread.start()
    lines: list[str] = []
    failure = run_plain(feed, lines.append, interval_s=0.0)
    feed.stop()
    thread.join(5)
    assert failure is None
    assert "cut off" not in "\n".join(lines)
    assert lines[-1].startswith("run ended")
