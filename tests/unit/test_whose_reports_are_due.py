"""Which reports the oracle of the fault suite wants to see in an iteration."""

from __future__ import annotations

import pytest
from fault_ledgers import Ledger
from fault_oracle import _last_learner_ns

# pyright: reportPrivateUsage=false


def ledger(name: str, started_ns: int, *spans: tuple[int, int]) -> Ledger:
    return Ledger(name, started_ns, spans_ns=dict(enumerate(spans)))


FIRST = ledger("learner-0-1-1", 10, (12, 13), (18, 19))
OTHER = ledger("learner-1-2-7", 64, (90, 91))
SECOND = ledger("learner-0-2-5", 60, (80, 81))


@pytest.mark.parametrize(
    ("started_ns", "logged_ns", "last_ns"),
    [
        (30, 33, 0),  # gone before its rank 0 was there, and nearer to the one before
        (36, 39, 90),  # nearer to its own
        (30, 61, 90),  # not gone yet
        (70, 75, 90),
    ],
)
def test_those_of_who_was_gone_before_its_rank_0_are_of_the_nearer_attempt(
    started_ns: int, logged_ns: int, last_ns: int
) -> None:
    collector = ledger("collector-1-2-6", started_ns, (logged_ns - 1, logged_ns))
    assert _last_learner_ns(collector, [FIRST, SECOND, OTHER, collector]) == last_ns


def test_in_the_first_attempt_all_of_them_are_due_whoever_comes_first() -> None:
    collector = ledger("collector-0-1-1", 1, (2, 3))
    zero = ledger("learner-0-1-2", 10, (11, 12))
    assert _last_learner_ns(collector, [zero, collector]) == 11


def test_an_earlier_rank_0_that_has_said_nothing_may_be_taken_for_still_at_work() -> None:
    silent = ledger("learner-0-1-1", 10)
    collector = ledger("collector-1-2-6", 50, (51, 52))
    assert _last_learner_ns(collector, [silent, SECOND, OTHER, collector]) == 0
