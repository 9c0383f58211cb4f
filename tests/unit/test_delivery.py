"""Cursors, epochs, rewinds and refusals, as lists of events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.publish.delivery import (
    HELLO_INTERVAL_NS,
    RESEND_AFTER_NS,
    SILENT_AFTER_NS,
    WINDOW_FRAMES,
    Delivery,
)
from unilab_schema.control import Cursor, Epoch, Reject

S = 1_000_000_000


def cursor(
    reached: int,
    durable: int | None = None,
    *,
    epoch: int = 1,
    journal: bytes = b"j" * 16,
    window: int = WINDOW_FRAMES,
    rewind: bool = False,
    closed: bool = False,
) -> Cursor:
    durable = reached if durable is None else durable
    return Cursor(Epoch(journal, epoch), reached, durable, window, 0, 0, rewind, closed)


def greeted(reached: int = 0, last: int = 1000) -> Delivery:
    delivery = Delivery()
    delivery.connected(0)
    delivery.take_cursor(cursor(reached), last, 0)
    return delivery


def test_nothing_is_sent_before_the_aggregator_has_answered_hello() -> None:
    delivery = Delivery()
    delivery.connected(0)
    assert delivery.hello_due(0)
    assert delivery.sendable(10) == 0
    delivery.hello_sent(0)
    assert not delivery.hello_due(HELLO_INTERVAL_NS - 1)
    assert delivery.hello_due(HELLO_INTERVAL_NS)
    delivery.take_cursor(cursor(0), 10, 0)
    assert delivery.sendable(10) == 10
    assert not delivery.hello_due(10 * S)


def test_no_more_than_a_window_is_under_way() -> None:
    delivery = greeted()
    assert delivery.sendable(1000) == WINDOW_FRAMES
    delivery.sent_upto(WINDOW_FRAMES, 0)
    assert delivery.sendable(1000) == WINDOW_FRAMES
    delivery.take_cursor(cursor(100, window=10), 1000, 0)
    assert delivery.sendable(1000) == WINDOW_FRAMES
    delivery.take_cursor(cursor(WINDOW_FRAMES, window=10), 1000, 0)
    assert delivery.sendable(1000) == WINDOW_FRAMES + 10


def test_cursors_of_one_epoch_only_rise() -> None:
    delivery = greeted(50)
    delivery.sent_upto(80, 0)
    delivery.take_cursor(cursor(60, 55), 1000, 0)
    delivery.take_cursor(cursor(40, 30), 1000, 0)
    assert (delivery.acked, delivery.durable, delivery.sent) == (60, 55, 80)


def test_a_new_epoch_rewinds_to_its_cursor_even_below_what_was_acknowledged() -> None:
    delivery = greeted(50)
    delivery.sent_upto(80, 0)
    delivery.take_cursor(cursor(30, epoch=2), 1000, 0)
    assert (delivery.acked, delivery.durable, delivery.sent) == (30, 30, 30)


def test_an_answer_of_an_old_epoch_changes_nothing() -> None:
    delivery = greeted()
    delivery.take_cursor(cursor(30, epoch=3), 1000, 0)
    delivery.take_cursor(cursor(90, epoch=2), 1000, 0)
    assert (delivery.acked, delivery.sent) == (30, 30)
    delivery.take_cursor(cursor(10, epoch=1, journal=b"k" * 16), 1000, 0)
    assert (delivery.acked, delivery.sent) == (10, 10)


def test_a_rewind_sends_again_from_the_cursor_and_checks_the_bytes() -> None:
    delivery = greeted(50)
    delivery.sent_upto(80, 0)
    assert not delivery.must_verify
    delivery.take_cursor(cursor(60, rewind=True), 1000, 0)
    assert delivery.sent == 60
    assert delivery.must_verify
    delivery.sent_upto(80, 0)
    assert not delivery.must_verify


def test_a_cursor_beyond_the_spool_is_no_more_than_the_spool() -> None:
    delivery = greeted()
    delivery.take_cursor(cursor(10**9), 20, 0)
    assert (delivery.acked, delivery.durable, delivery.sent) == (20, 20, 20)


def test_an_unknown_source_says_hello_at_once_and_sends_from_its_cursor() -> None:
    delivery = greeted(50)
    delivery.sent_upto(80, 0)
    delivery.take_reject(Reject("unknown_source", "who?"), S)
    assert delivery.hello_due(S)
    assert delivery.sent == 50
    assert delivery.sendable(100) == 50


def test_a_refusal_for_now_waits_and_a_final_one_ends_it() -> None:
    delivery = greeted()
    delivery.take_reject(Reject("held", "later", retry_after_s=2.0), S)
    assert not delivery.hello_due(2 * S)
    assert delivery.hello_due(3 * S)
    delivery.take_reject(Reject("version", "too new", final=True), S)
    assert delivery.refused == "version: too new"
    assert not delivery.hello_due(100 * S)
    assert delivery.sendable(100) == delivery.sent


def test_what_is_stuck_is_sent_again_ever_more_slowly() -> None:
    delivery = greeted()
    delivery.sent_upto(5, 0)
    delivery.resend_if_stuck(RESEND_AFTER_NS - 1)
    assert delivery.sent == 5
    delivery.resend_if_stuck(RESEND_AFTER_NS)
    assert delivery.sent == 0
    delivery.sent_upto(5, RESEND_AFTER_NS)
    delivery.resend_if_stuck(2 * RESEND_AFTER_NS)
    assert delivery.sent == 5
    delivery.resend_if_stuck(3 * RESEND_AFTER_NS)
    assert delivery.sent == 0
    delivery.take_cursor(cursor(5), 1000, 4 * RESEND_AFTER_NS)
    delivery.resend_if_stuck(100 * RESEND_AFTER_NS)
    assert delivery.sent == 5


def test_silence_is_measured_from_the_last_word() -> None:
    delivery = greeted()
    delivery.take_cursor(cursor(0), 10, 3 * S)
    assert delivery.silent_ns(3 * S + SILENT_AFTER_NS) == SILENT_AFTER_NS
    delivery.connected(20 * S)
    assert delivery.silent_ns(20 * S) == 0
    assert not delivery.greeted


def test_the_end_of_the_run_is_remembered() -> None:
    delivery = greeted()
    delivery.take_cursor(cursor(3, closed=True), 10, 0)
    delivery.take_cursor(cursor(3), 10, 0)
    assert delivery.run_closed


_cursors = st.builds(
    cursor,
    st.integers(0, 40),
    st.integers(0, 40),
    epoch=st.integers(1, 3),
    rewind=st.booleans(),
)
_events = st.lists(
    st.one_of(_cursors, st.just("send"), st.just("connect"), st.just("reject"), st.just("time")),
    max_size=60,
)


@given(_events)
def test_whatever_comes_only_what_is_there_is_sent_and_nothing_durable_is_sent_again(
    events: list[object],
) -> None:
    delivery = Delivery()
    for last, event in enumerate(events, 1):
        now = last * S
        if isinstance(event, Cursor):
            delivery.take_cursor(event, last, now)
        elif event == "connect":
            delivery.connected(now)
        elif event == "reject":
            delivery.take_reject(Reject("unknown_source", ""), now)
        elif event == "time":
            delivery.resend_if_stuck(now)
        else:
            upto = delivery.sendable(last)
            assert delivery.sent <= upto <= last
            if upto > delivery.sent:
                delivery.sent_upto(upto, now)
        assert 0 <= delivery.durable <= delivery.acked <= delivery.sent <= last
