"""From when on announcements are late, for how long, and how often they are heard then."""

from __future__ import annotations

import pytest

from unilab_metrics.subscribe.lateness import Lateness

S = 1_000_000_000


def late(by_s: float) -> Lateness:
    """An announcement without delay, and one a second later that is late."""
    lateness = Lateness()
    lateness.heard(0, 0.0)
    lateness.heard(S, 1.0 + by_s)
    return lateness


@pytest.mark.parametrize(("by_s", "is_due"), [(4.99, False), (5.01, True)])
def test_five_seconds_are_worth_a_new_connection(by_s: float, is_due: bool) -> None:
    assert late(by_s).is_renewal_due(100.0) is is_due


def test_only_what_lasts_for_two_seconds_is() -> None:
    lateness = late(6.0)
    assert not lateness.is_renewal_due(7.0 + 1.99)
    assert lateness.is_renewal_due(7.0 + 2.0)
    lateness.heard(8 * S, 8.0)
    assert not lateness.is_renewal_due(20.0)


def test_afterwards_one_is_heard_a_second_for_a_minute_then_for_two() -> None:
    lateness = late(6.0)
    for began_s, lasts_s in ((100.0, 60.0), (1000.0, 120.0)):
        lateness.heard(round((began_s - 6.5) * S), began_s - 0.5)
        lateness.renewed(began_s)
        assert lateness.is_listening(began_s), "the first one has to be heard"
        lateness.heard(round(began_s * S), began_s + 0.2)
        assert not lateness.is_listening(began_s + 0.2 + 0.99)
        assert lateness.is_listening(began_s + 0.2 + 1.0)
        lateness.heard(round((began_s + lasts_s - 0.5) * S), began_s + lasts_s - 0.5)
        assert not lateness.is_listening(began_s + lasts_s - 0.01)
        assert lateness.is_listening(began_s + lasts_s)


def test_after_a_renewal_the_next_one_waits_ten_seconds_and_longer_if_it_did_not_help() -> None:
    lateness = late(6.0)
    assert lateness.is_renewal_due(10.0)
    lateness.renewed(10.0)
    # It was on its way since then at the most.
    lateness.heard(2 * S, 16.0)
    assert lateness.late_s == 6.0
    assert not lateness.is_renewal_due(10.0 + 19.9)
    assert lateness.is_renewal_due(10.0 + 20.0)
    lateness.renewed(30.0)
    lateness.heard(30 * S, 30.5)
    lateness.heard(31 * S, 40.0)
    assert not lateness.is_renewal_due(30.0 + 12.0 - 0.1)
    assert lateness.is_renewal_due(30.0 + 12.0)


def test_a_renewal_that_brings_nothing_for_long_begins_no_lateness_of_before() -> None:
    lateness = late(6.0)
    lateness.renewed(10.0)
    lateness.heard(2 * S, 28.5)
    assert not lateness.is_renewal_due(30.4)
    assert lateness.is_renewal_due(30.5)


def _hears_all(lateness: Lateness, now_s: float) -> bool:
    """Also a moment after one was heard."""
    lateness.heard(round(now_s * S), now_s)
    return lateness.is_listening(now_s)


def test_neither_pauses_between_renewals_nor_times_of_few_announcements_grow_for_ever() -> None:
    lateness, now_s = late(6.0), 10.0
    waits_s: list[float] = []
    few_s: list[float] = []
    for number in range(1, 9):
        lateness.renewed(now_s)
        lateness.heard(number * S, now_s + 6.0)
        waits_s.append(next(n for n in range(500) if lateness.is_renewal_due(now_s + n)))
        few_s.append(next(n for n in range(10, 5000, 10) if _hears_all(lateness, now_s + n)))
        now_s += 10_000.0
    assert waits_s == [20, 40, 80, 160, 160, 160, 160, 160]
    assert few_s == [60, 120, 240, 480, 960, 1920, 1920, 1920]
