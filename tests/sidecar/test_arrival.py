"""A viewer that is new to a run shows nothing of its past as if it were now."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace

import msgspec
import pytest
from sample_run import FakeSource, SampleRun

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.feeding.arrival import PATIENCE_S, Arrival
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.printed.json_lines import json_line
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.series import Series


def record(sequence: int) -> list[HistoryRecord]:
    return [HistoryRecord(sequence, SampleRun().update().entry, ())]


def at(update: int):
    run = SampleRun()
    for _ in range(update):
        run.update()
    head = run.head()
    assert head.update == update
    return head


def test_a_reply_that_is_on_its_way_does_not_end_the_reading():
    arrival, head = Arrival(), at(40)
    assert arrival.is_behind(record(12), 12, head, 0.0, reads_files=False)
    assert arrival.is_behind([], 12, head, 0.1, reads_files=False)
    assert arrival.is_behind(record(39), 39, head, 0.2, reads_files=False)
    assert not arrival.is_behind(record(40), 40, at(44), 0.3, reads_files=False)
    assert not arrival.is_behind([], 40, at(60), 0.4, reads_files=False)


def test_a_run_that_is_heard_late_is_not_here_before():
    arrival = Arrival()
    assert not arrival.is_behind([], None, None, 0.0, reads_files=False)
    assert arrival.is_behind([], None, at(40), 0.1, reads_files=False)


def test_a_run_that_goes_on_faster_than_it_can_be_read_is_shown_all_the_same():
    arrival = Arrival()
    assert arrival.is_behind(record(1), 1, at(40), 0.0, reads_files=False)
    assert arrival.is_behind(record(2), 2, at(50), PATIENCE_S / 2, reads_files=False)
    assert not arrival.is_behind(record(3), 3, at(60), PATIENCE_S, reads_files=False)


def test_what_is_lost_at_the_end_is_not_waited_for():
    arrival = Arrival()
    assert not arrival.is_behind(record(38), 40, at(40), 0.0, reads_files=False)


def test_files_are_read_until_there_is_nothing_new():
    arrival = Arrival()
    assert arrival.is_behind(record(1), 1, None, 0.0, reads_files=True)
    assert arrival.is_behind(record(2), 2, None, 0.1, reads_files=True)
    assert not arrival.is_behind([], 2, None, 0.2, reads_files=True)


def test_a_run_without_updates_is_here_at_once():
    assert not Arrival().is_behind([], 0, at(0), 0.0, reads_files=False)


def test_what_is_shown_late_says_so_and_is_as_old_as_the_update_shown():
    run, series = SampleRun(), Series()
    batch = run.batch(*[run.update() for _ in range(12)])
    assert batch.head is not None
    head = batch.head
    later = msgspec.structs.replace(head, update=97, mono_ns=head.mono_ns + 57 * 10**9)
    series.add(replace(batch, head=later))
    picture = series.picture()
    assert picture.unread == 97 - batch.records[-1].sequence
    assert picture.age_s is not None
    assert 57 <= picture.age_s < 59
    (said,) = [alert.text for alert in alerts(picture) if "still to be read" in alert.text]
    assert said == f"shown is 57 s ago; {picture.unread} entries are still to be read"
    assert json.loads(json_line(picture))["unread"] == picture.unread
    ages = dict(line.rsplit(" ", 1) for line in MetricTeller(1.0).once(picture))
    assert ages["iteration 12"] == ages[f"env_steps {picture.env_steps}"] == "57.0s"
    assert ages["dropped 0"] == "0.1s"


def test_a_slow_iteration_is_not_late():
    run, series = SampleRun(), Series()
    batch = run.batch(run.update())
    assert batch.head is not None
    head = batch.head
    later = msgspec.structs.replace(head, update=head.update + 1, mono_ns=head.mono_ns + 57 * 10**9)
    series.add(replace(batch, head=later))
    assert not [one for one in alerts(series.picture()) if "still to be read" in one.text]


class OnItsWay(FakeSource):
    """Some entries, then a poll without any, then the rest."""

    reads_files = False

    def __init__(self) -> None:
        super().__init__()
        self.head = at(40)
        self._polls = [record(12), [], record(40)]

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        if not self._polls:
            time.sleep(timeout_ms / 1000)
        return self._polls.pop(0) if self._polls else []


def test_the_feed_hands_over_nothing_as_now_before_it_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unilab_sidecar.feeding.feed.SIGN_OF_LIFE_S", 0.0)
    feed = Feed(OnItsWay, wait_for_bus=False)
    thread = threading.Thread(target=feed.run)
    thread.start()
    batches = [*feed.wait(5.0)]
    while batches[-1].behind:
        batches += feed.wait(5.0)
    feed.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert [bool(one.records) for one in batches[:3]] == [True, False, True]
    assert [one.behind for one in batches[:3]] == [True, True, False]
