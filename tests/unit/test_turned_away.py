"""Who is not taken in is told once, and who is only early is not."""

from __future__ import annotations

import msgspec

from unilab_metrics.aggregate.receiving.turned_away import LASTS_NS, TurnedAway
from unilab_schema.control import Reject
from unilab_schema.identity import Identity, SourceKey

SECOND = 1_000_000_000
HELD = Reject("held", "rank 0 has said goodbye")
TEXT = "collector of rank 3 (pid 7 on node) is not taken in: rank 0 has said goodbye"


def process(name: bytes = b"a") -> Identity:
    key = SourceKey(3, "collector")
    return Identity(key, name * 16, 7, "node", "boot", "/s", "/s/lease", 0, 0)


def asks(turned_away: TurnedAway, until_ns: int, refusal: Reject = HELD) -> list[tuple[int, str]]:
    """What is told, and when, of one that asks twice a second."""
    times = range(0, until_ns + 1, SECOND // 2)
    answers = [(now, turned_away.refused(process(), refusal, now)) for now in times]
    return [(now, text) for now, text in answers if text]


def test_one_that_is_held_is_told_once_it_lasts() -> None:
    assert asks(TurnedAway(), 60 * SECOND) == [(LASTS_NS, TEXT)]


def test_one_that_came_before_its_rank_0_is_not_told() -> None:
    turned_away = TurnedAway()
    assert asks(turned_away, 2 * SECOND) == []
    turned_away.admitted(process())
    assert turned_away.left_out(2 * SECOND) == []


def test_the_end_of_the_run_names_who_still_asks() -> None:
    turned_away = TurnedAway()
    assert asks(turned_away, 1 * SECOND) == []
    assert turned_away.left_out(2 * SECOND) == [TEXT]
    assert turned_away.left_out(2 * SECOND) == []


def test_the_end_of_the_run_names_nobody_who_is_gone_or_was_named() -> None:
    turned_away = TurnedAway()
    asks(turned_away, 1 * SECOND)
    assert turned_away.left_out(10 * SECOND) == []
    assert len(asks(turned_away, 6 * SECOND)) == 1
    assert turned_away.left_out(6 * SECOND) == []


def test_the_end_of_the_run_names_nobody_if_the_next_attempt_is_there() -> None:
    turned_away = TurnedAway()
    asks(turned_away, 1 * SECOND)
    zero = msgspec.structs.replace(process(b"z"), key=SourceKey(0, "learner"))
    turned_away.refused(zero, Reject("closing", "the run is ending"), 1 * SECOND)
    assert turned_away.left_out(2 * SECOND) == []


def test_a_second_process_in_a_place_is_told_at_once_and_once() -> None:
    told = asks(TurnedAway(), 10 * SECOND, Reject("duplicate_rank", "the other one lives"))
    assert told == [(0, "pid 7 on node is refused: the other one lives")]


def test_a_refusal_for_good_is_for_the_process_itself() -> None:
    assert asks(TurnedAway(), 10 * SECOND, Reject("bad_message", "nonsense", final=True)) == []


def test_a_flood_of_processes_is_not_remembered() -> None:
    turned_away = TurnedAway()
    for number in range(1000):
        identity = process(bytes([number % 256]))
        turned_away.refused(identity, HELD, 0)
        turned_away.refused(process(number.to_bytes(2, "big") * 8), HELD, 0)
    assert len(turned_away.left_out(SECOND)) == 256
