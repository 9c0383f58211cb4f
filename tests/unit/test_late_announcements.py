"""Over a slow line announcements wait behind others: what they say is old, and that is known."""

from __future__ import annotations

import struct

from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.fetching import UNTOLD_FETCH_S, UNTOLD_S, Fetching
from unilab_metrics.subscribe.lateness import RENEW_S, SIP_S, Lateness
from unilab_metrics.subscribe.passing_over import PassingOver
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Updates
from unilab_schema.updates import Update, UpdateLayout

EPOCH = Epoch(b"j" * 16, 1)
LAYOUT = UpdateLayout(0, ("a",))


def head(update: int, at_s: float) -> Head:
    return Head(EPOCH, update, update, 1, RunInfo(), "/r", (), (), int(at_s * 1e9), 0)


def update(sealed_s: float, number: int = 1) -> Update:
    value = struct.pack("<d", 1.0)
    return Update(1, number, None, 0, int(sealed_s * 1e9), 0.0, 1, 1, 0, value)


def filled(late_s: float, *, apart_s: float = 5000.0) -> Lateness:
    """Of another machine's clock, after the line has filled."""
    lateness = Lateness()
    for second in range(40):
        lateness.heard(int(second * 1e9), apart_s + second + min(second * 0.9, late_s))
    return lateness


def test_what_waits_behind_others_is_known_to_be_late_whatever_the_clocks_say() -> None:
    assert abs(filled(20.0).late_s - 20.0) < 0.1
    assert abs(filled(20.0, apart_s=-300.0).late_s - 20.0) < 0.1
    assert filled(0.0).late_s < 0.01


def test_clocks_that_run_apart_are_not_late() -> None:
    lateness = Lateness()
    for second in range(0, 86_400, 10):
        lateness.heard(int(second * (1 - 5e-5) * 1e9), second + 0.05)
    assert lateness.late_s < 0.1


def test_late_ones_are_given_up_and_then_only_some_are_heard() -> None:
    lateness = filled(2.0)
    assert not lateness.is_renewal_due(100.0)
    assert lateness.is_listening(100.0)
    lateness = filled(20.0)
    now_s = 5060.0
    assert lateness.is_renewal_due(now_s)
    lateness.renewed(now_s)
    assert not lateness.is_renewal_due(now_s)
    assert lateness.is_listening(now_s)
    lateness.heard(int(60.1e9), now_s + 0.2)
    assert lateness.late_s < 0.2
    assert not lateness.is_listening(now_s + 0.3)
    assert lateness.is_listening(now_s + 0.3 + SIP_S)
    assert lateness.is_listening(now_s + 61.0)


def test_what_was_not_read_while_this_process_was_stopped_says_nothing_of_the_line() -> None:
    lateness = filled(0.0)
    for made_s in range(40, 60):
        lateness.heard(int(made_s * 1e9), 5100.0)
    assert not lateness.is_renewal_due(5100.0)
    lateness.heard(int(101e9), 5101.0)
    assert not lateness.is_renewal_due(5103.5)
    assert lateness.is_listening(5103.5)


def test_a_clock_that_stood_still_is_not_late_for_ever() -> None:
    lateness = filled(0.0)
    lateness.heard(int(40e9), 5000.0 + 3640.0)
    assert lateness.late_s > 3000.0
    lateness.renewed(8641.0)
    lateness.heard(int(41.2e9), 8641.2)
    assert lateness.late_s < 0.3


def test_renewals_that_do_not_help_become_seldom() -> None:
    lateness, made_s, waits_s, last_s = filled(20.0), 40.0, [], 0.0
    for second in range(5061, 5800):
        lateness.heard(int(made_s * 1e9), float(second))
        if lateness.is_renewal_due(second):
            lateness.renewed(second)
            waits_s.append(second - last_s)
            last_s = second
        made_s = second - 5000.0 - RENEW_S - 15.0
    assert waits_s[1:] == sorted(waits_s[1:])
    assert len(waits_s) < 8


def test_late_announcements_are_a_lag_although_they_know_of_little_that_is_new() -> None:
    def passes(late_s: float) -> bool:
        position, passing = Position(1000, None), PassingOver()
        position.heed(head(2000, 100.0))
        newest = update(95.0)
        assert not passing.look(position, newest, 1.0, late_s)
        position.cursor = 1005
        return passing.look(position, newest, 5.0, late_s)

    assert passes(20.0)
    assert not passes(0.0)


def test_what_late_announcements_do_not_tell_is_asked_for() -> None:
    position, fetching = Position(10, None), Fetching()
    position.heed(head(10, 100.0))
    assert fetching.due(position, 50.0) is None
    assert fetching.due(position, 50.0, UNTOLD_S + 0.1) is not None
    fetching.sent(1, 50.0)
    fetching.take(Updates(1, EPOCH, 10, (), b""), position, 50.1)
    assert fetching.due(position, 50.4, 9.0) is None
    assert fetching.due(position, 50.2 + UNTOLD_FETCH_S, 9.0) is not None


def limit_after(counts: list[int], took_s: float) -> int:
    position, fetching = Position(0, None), Fetching()
    position.heed(head(100_000, 1.0))
    now_s, last = 10.0, 0
    for number, count in enumerate(counts, 1):
        fetch = fetching.due(position, now_s)
        assert fetch is not None
        fetching.sent(number, now_s)
        now_s += took_s
        taken = range(last + 1, last + 1 + min(count, fetch.limit))
        last = taken[-1]
        records = b"".join(
            encode_record(RecordKind.UPDATE, one, encode_payload(update(one / 10, one)))
            for one in taken
        )
        fetching.take(Updates(number, EPOCH, last, (LAYOUT,), records), position, now_s)
    fetch = fetching.due(position, now_s + 1.0)
    assert fetch is not None
    return fetch.limit


def test_as_much_is_asked_for_as_the_line_has_shown_to_carry() -> None:
    assert limit_after([5] * 10, 0.1) <= 16
    assert limit_after([1000] * 8, 0.1) == 1000
    assert limit_after([1000] * 3, 4.0) <= 16
