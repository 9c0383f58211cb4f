"""What a viewer asks for over a line that is slow: little at a time, and nothing twice."""

from __future__ import annotations

import itertools
import struct

from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.fetching import LONGEST_TIMEOUT_S, REPLY_TIMEOUT_S, Fetching
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Fetch, Updates
from unilab_schema.updates import Update, UpdateLayout

EPOCH = Epoch(b"j" * 16, 1)
LAYOUT = UpdateLayout(0, ("a",))


def position_of(updates: int) -> Position:
    made = Position(0, None)
    made.heed(Head(EPOCH, updates, updates, 1, RunInfo(), "/run", (), (), 0, 0))
    return made


def answer(fetch: Fetch, number: int) -> Updates:
    last = fetch.after + fetch.limit
    records = b"".join(
        encode_record(RecordKind.UPDATE, sequence, encode_payload(update(sequence)))
        for sequence in range(fetch.after + 1, last + 1)
    )
    return Updates(number, EPOCH, last, (LAYOUT,), records)


def update(number: int) -> Update:
    return Update(1, number, None, 0, number, 0.0, 1, 1, 0, struct.pack("<d", 1.0))


def limits_over(seconds_per_entry: float, rtt_s: float) -> list[int]:
    """Of requests, each answered before the next one."""
    position, fetching, now_s = position_of(100_000), Fetching(), 0.0
    limits: list[int] = []
    for number in range(1, 12):
        fetch = fetching.due(position, now_s)
        assert fetch is not None
        limits.append(fetch.limit)
        fetching.sent(number, now_s)
        now_s += rtt_s + fetch.limit * seconds_per_entry
        fetching.take(answer(fetch, number), position, now_s)
        now_s += 1.0
    return limits


def test_parts_grow_on_a_quick_line_and_stay_small_on_a_slow_one() -> None:
    assert limits_over(1e-5, 0.001)[-1] == 1000
    slow = limits_over(0.03, 0.3)
    assert all(limit <= 64 for limit in slow)
    assert all(limit * 0.03 <= 2 * REPLY_TIMEOUT_S for limit in slow)


def test_a_late_reply_is_taken_and_what_was_asked_for_meanwhile_is_not_doubled() -> None:
    position, fetching = position_of(100), Fetching()
    first = fetching.due(position, 0.0)
    assert first is not None
    fetching.sent(1, 0.0)
    assert fetching.due(position, 1.0) is None
    second = fetching.due(position, 3.0)
    assert second is not None
    assert second.limit < first.limit
    fetching.sent(2, 3.0)
    fetching.take(answer(first, 1), position, 4.0)
    assert position.cursor == first.limit
    fetching.take(answer(second, 2), position, 4.5)
    assert position.cursor == first.limit
    assert position.lost_entries == 0
    fetching.take(Updates(7, EPOCH, 99, (), b""), position, 5.0)
    assert position.cursor == first.limit


def test_who_is_never_answered_asks_ever_more_seldom() -> None:
    position, fetching = position_of(100), Fetching()
    asked: list[float] = []
    for tenth in range(1000):
        now_s = tenth / 10
        if fetching.due(position, now_s) is not None:
            fetching.sent(len(asked) + 1, now_s)
            asked.append(now_s)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses[0] < 2 * REPLY_TIMEOUT_S
    assert LONGEST_TIMEOUT_S <= pauses[-1] < LONGEST_TIMEOUT_S + 1.0
