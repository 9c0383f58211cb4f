"""A run whose files a viewer does not see: what is said when nobody announces it any more."""

from __future__ import annotations

import threading
import time

import pytest
from sample_run import FakeSource
from series_records import head

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_sidecar.alerting.alerts import alerts, border
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.summary import Summary, summary_in
from unilab_sidecar.printed.plain import run_plain
from unilab_sidecar.progress.standing import state
from unilab_sidecar.series import Series

GONE = ("the aggregator (pid 7)",)


class Silent(FakeSource):
    """Heard once, then no more; without files."""

    def __init__(self) -> None:
        super().__init__()
        self.connected = self.reads_files = False

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        if self._waiting:
            return super().poll(timeout_ms)
        threading.Event().wait(timeout_ms / 1000)
        return []


def lines_of(summary: Summary | None) -> tuple[list[str], int]:
    feed = Feed(
        Silent,
        wait_for_bus=False,
        find_abandoned=lambda: GONE,
        read_summary=lambda _attempt: summary,
        target="me@box:runs/7",
        sees_files=False,
    )
    thread = threading.Thread(target=feed.run)
    thread.start()
    lines: list[str] = []
    until_s = time.monotonic() + 20.0
    failure = run_plain(
        feed, lines.append, interval_s=0.0, stopped=lambda: time.monotonic() > until_s
    )
    feed.stop()
    thread.join(5)
    return lines, 0 if failure is None else failure.exit_code


def test_a_run_on_which_nobody_is_at_work_there_was_cut_off() -> None:
    lines, status = lines_of(None)
    assert "nobody on me@box is at work on it" in "\n".join(lines)
    assert "; there, `unilab-metrics recover " in "\n".join(lines)
    assert status == 4


def test_one_that_says_itself_how_it_ended_was_not() -> None:
    lines, status = lines_of(Summary(dropped=0, status="completed"))
    assert "cut off" not in "\n".join(lines)
    assert lines[-1].startswith("run ended: completed")
    assert status == 0


def test_how_a_run_ended_is_in_its_summary() -> None:
    assert summary_in(b'{"status":"failed","bus":{"attempt":2}}', 2) == Summary(status="failed")
    assert summary_in(b'{"status":7,"bus":{"attempt":2}}', 2) == Summary()


def test_an_end_that_was_told_of_is_over_when_somebody_speaks_again() -> None:
    series = Series("", "box:/run")
    series.add(Batch((), head(1.0), head_age_s=9.0, ended="completed"))
    assert series.picture().ended == "completed"
    series.add(Batch((), head(2.0), connected=True))
    assert series.picture().ended is None


@pytest.mark.parametrize("silent_s", [5.0, 30.0])
def test_over_tcp_nobody_can_tell_and_that_is_said_with_the_age(silent_s: float) -> None:
    series = Series("", "tcp://10.0.0.5:7400")
    series.add(Batch((), head(1.0), head_age_s=silent_s))
    picture = series.picture()
    texts = [alert.text for alert in alerts(picture)]
    said = [text for text in texts if "nobody can see whether it goes on" in text]
    assert bool(said) is (silent_s > 10.0)
    if said:
        assert "nothing was heard for 30 s" in said[0]
        assert border(picture) is None
    assert "aggregator silent for" in state(picture).text
