"""Where a viewer that is new to a live run begins to read."""

from __future__ import annotations

import msgspec
import pytest

from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.fetching import REPLY_TIMEOUT_S
from unilab_metrics.subscribe.joining import REACH_NS, USUAL_BYTES, USUAL_ENTRIES, Joining
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Updates
from unilab_schema.updates import Update, UpdateLayout

EPOCH = Epoch(b"j" * 16, 1)


class Run:
    """Answers as an aggregator does. ``first_attempt``: how many entries are of an earlier one."""

    def __init__(self, updates: int, per_s: float, tags: int = 2, first_attempt: int = 0) -> None:
        self.updates, self.per_s, self.first_attempt = updates, per_s, first_attempt
        self.layout = UpdateLayout(0, tuple(f"tag{n}" for n in range(tags)))
        self.fetched = 0
        self.bytes = 0

    def sealed_ns(self, sequence: int) -> int:
        return 10**12 + round(sequence * 1e9 / self.per_s)

    def record(self, sequence: int) -> bytes:
        attempt = 1 if sequence <= self.first_attempt else 2
        values = bytes(8 * len(self.layout.tags))
        entry = Update(attempt, sequence, None, 0, self.sealed_ns(sequence), 0.0, 1, 1, 0, values)
        return encode_record(RecordKind.UPDATE, sequence, encode_payload(entry))

    def begin(self) -> int:
        position, joining = Position(None, None), Joining()
        position.heed(Head(EPOCH, self.updates, self.updates, 2, RunInfo(), "/run", (), (), 0, 0))
        assert position.is_joining
        for number in range(1, 30):
            fetch = joining.due(position, 0.0)
            assert fetch is not None
            joining.sent(number, 0.0)
            assert joining.due(position, 0.0) is None
            last = min(fetch.after + fetch.limit, self.updates)
            records = [self.record(n) for n in range(fetch.after + 1, last + 1)]
            self.fetched += len(records)
            self.bytes += sum(map(len, records))
            reply = Updates(number, EPOCH, last, (self.layout,), b"".join(records))
            begin = joining.take(reply, 0.0)
            if begin is not None:
                return begin
        pytest.fail("never knows where to begin")


@pytest.mark.parametrize("per_s", [0.1, 5.0, 499.0, 700.0, 5_000.0, 40_000.0])
def test_all_updates_of_two_seconds_come_however_many_those_are(per_s: float):
    run = Run(200_000, per_s)
    begin = run.begin()
    assert run.sealed_ns(run.updates) - run.sealed_ns(begin + 1) >= REACH_NS
    assert run.updates - begin <= max(USUAL_ENTRIES, 5 * 2 * per_s)
    assert run.fetched < 60


def test_of_large_updates_no_more_come_than_take_a_moment():
    run = Run(3_000, 5.0, tags=12_345)
    begin = run.begin()
    weight = len(run.record(1))
    assert run.sealed_ns(run.updates) - run.sealed_ns(begin + 1) >= REACH_NS
    assert (run.updates - begin) * weight <= USUAL_BYTES
    assert run.bytes <= USUAL_BYTES


def test_of_large_updates_that_come_fast_two_seconds_come():
    run = Run(3_000, 50.0, tags=12_345)
    begin = run.begin()
    assert run.sealed_ns(run.updates) - run.sealed_ns(begin + 1) >= REACH_NS
    assert run.updates - begin < 5 * 2 * 50


def test_nothing_of_an_earlier_attempt_is_needed():
    run = Run(20_000, 40_000.0, first_attempt=18_500)
    assert 0 < run.begin() < 18_500


@pytest.mark.parametrize("updates", [1, 3, 5, 900])
def test_a_short_run_comes_whole(updates: int):
    assert Run(updates, 10.0).begin() == 0


def test_what_does_not_arrive_is_asked_for_again_and_other_replies_are_passed_over():
    position, joining = Position(None, None), Joining()
    position.heed(Head(EPOCH, 500, 500, 1, RunInfo(), "/run", (), (), 0, 0))
    fetch = joining.due(position, 0.0)
    assert fetch is not None
    joining.sent(1, 0.0)
    assert joining.take(Updates(7, EPOCH, 500, (), b""), 0.0) is None
    assert joining.due(position, REPLY_TIMEOUT_S / 2) is None
    assert joining.due(position, 2 * REPLY_TIMEOUT_S) == msgspec.structs.replace(fetch)
