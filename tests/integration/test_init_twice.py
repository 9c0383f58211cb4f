"""Two publishers of one process in one place: the order of their starts is that of attempts."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from receiving_end import ReceivingEnd
from spooled import spooled_publisher

from unilab_metrics.publish import turns
from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.turns import Turn
from unilab_schema.identity import Identity, SourceKey

RUN, OTHER = Path("/run"), Path("/other")


@pytest.fixture
def made() -> Iterator[list[Turn]]:
    turns_made: list[Turn] = []
    yield turns_made
    for turn in turns_made:
        turn.end()


def turn(
    made: list[Turn], delivery: Delivery | None = None, *, run: Path = RUN, rank: int = 0
) -> Turn:
    key = SourceKey(rank, "learner")
    identity = Identity(key, os.urandom(16), os.getpid(), "h", "b", "/s", "/l", 0, 0)
    made.append(Turn(identity, delivery or Delivery(), lambda: run))
    return made[-1]


def test_a_later_one_is_heard_after_the_earlier_one(made: list[Turn]) -> None:
    heard = Delivery()
    first = turn(made, heard)
    second = turn(made)
    assert first.has_come
    assert not second.has_come
    heard.answered_ns = 1
    assert second.has_come


def test_it_waits_for_nobody_who_is_closed_or_silent_for_long(
    made: list[Turn], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = turn(made), turn(made)
    third = turn(made)
    first.end()
    assert second.has_come
    assert not third.has_come
    monkeypatch.setattr(turns, "PATIENCE_NS", 0)
    assert third.has_come


@pytest.mark.parametrize("other", [{"run": OTHER}, {"rank": 1}])
def test_another_run_and_another_rank_wait_for_nobody(
    made: list[Turn], other: dict[str, int]
) -> None:
    first, second = turn(made), turn(made, **other)  # type: ignore[arg-type]
    assert second.has_come
    assert not first.is_followed


def test_the_earlier_one_is_followed_until_the_later_one_is_closed(made: list[Turn]) -> None:
    first = turn(made)
    assert not first.is_followed
    second = turn(made)
    assert first.is_followed
    assert not second.is_followed
    second.end()
    assert not first.is_followed


def test_a_fork_knows_nothing_of_its_parents(made: list[Turn]) -> None:
    first = turn(made)
    child = msgspec.structs.replace(first.identity, pid=first.identity.pid + 1)
    made.append(Turn(child, Delivery(), lambda: RUN))
    assert made[-1].has_come


def test_the_first_close_does_not_wait_for_the_second_one(tmp_path: Path, short_path: Path) -> None:
    end = ReceivingEnd(short_path)
    first = spooled_publisher(
        tmp_path, find_bus=end.find_bus, find_run=lambda: tmp_path, wait_for_backends=True
    )
    second = spooled_publisher(tmp_path, find_run=lambda: tmp_path)
    delivered: list[bool] = []
    closing = threading.Thread(target=lambda: delivered.append(first.close(20.0)))
    closing.start()
    # The run is not over, which is what rank 0 waits for otherwise.
    end.serve(lambda: not closing.is_alive())
    closing.join()
    assert delivered == [True]
    with pytest.warns(RuntimeWarning):
        second.close(0)
    end.close()


def test_who_closes_the_later_one_has_done_with_the_earlier_ones(made: list[Turn]) -> None:
    closed: list[str] = []
    names = ("first", "elsewhere", "second", "third")
    others = {"elsewhere": OTHER}
    for name in names:
        turn(made, run=others.get(name, RUN)).close = lambda _, name=name: closed.append(name)
    made[2].end_earlier(1.0)
    assert closed == ["first"]
    made[0].end()
    made[3].end_earlier(1.0)
    assert closed == ["first", "second"]


def test_the_publisher_that_was_forgotten_is_closed_with_its_successor(tmp_path: Path) -> None:
    first = spooled_publisher(tmp_path, find_run=lambda: tmp_path)
    second = spooled_publisher(tmp_path, find_run=lambda: tmp_path)
    with pytest.warns(RuntimeWarning, match="unsent"):
        second.close(0)
    assert first.is_closing


def test_who_interrupts_the_end_of_the_earlier_one_can_still_close_the_later_one(
    tmp_path: Path,
) -> None:
    first = spooled_publisher(tmp_path, find_run=lambda: tmp_path)
    second = spooled_publisher(tmp_path, find_run=lambda: tmp_path)

    def interrupt(_timeout_s: float) -> None:
        raise KeyboardInterrupt

    assert first._shipper is not None
    first._shipper.prospects.turn.close = interrupt
    with pytest.raises(KeyboardInterrupt):
        second.close(0)
    assert not second.is_closing
    first._shipper.prospects.turn.close = first.close
    with pytest.warns(RuntimeWarning, match="unsent"):
        second.close(0)
    assert first.is_closing
    assert second.is_closing
