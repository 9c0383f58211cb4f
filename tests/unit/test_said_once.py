"""What fails for long is said once for each cause, and what comes and goes not without end."""

from __future__ import annotations

import errno
from pathlib import Path

from unilab_metrics.aggregate import endurance
from unilab_metrics.aggregate.endurance import Endurance
from unilab_metrics.errors import StorageError, StorageFullError
from unilab_metrics.said_once import MOST_TIMES, SaidOnce, cause_of
from unilab_metrics.write.backends.base import BackendError


def test_each_cause_is_said_once_until_it_works_again() -> None:
    said = SaidOnce()
    told = [said.fails(cause, cause) for cause in ("full", "EIO", "full", "EIO", "full")]
    assert told == ["full", "EIO", "", "", ""]
    assert said.is_failing
    assert [said.works("again"), said.works("again")] == ["again", ""]
    assert not said.is_failing
    assert said.fails("full", "full") == "full"


def test_what_comes_and_goes_is_said_a_few_times_and_then_not_any_more() -> None:
    said = SaidOnce()
    begun = [said.fails("full", "full") for _ in range(100) if said.works("") == ""]
    assert begun[MOST_TIMES - 1] == "full; it has come and gone so often that it is not said again"
    assert [bool(text) for text in begun] == [True] * MOST_TIMES + [False] * (100 - MOST_TIMES)
    assert said.works("again") == ""


def test_causes_that_are_always_new_are_bounded_too() -> None:
    said = SaidOnce()
    told = [said.fails(f"cause {chr(65 + n)}", "text") for n in range(1000)]
    assert 0 < sum(map(bool, told)) < 100


def test_the_cause_is_the_same_whatever_file_and_size_a_retry_has() -> None:
    short = StorageFullError("/a/events.1", 149)
    full = StorageFullError("/a/events.2", 270, errno.ENOSPC)
    refused = BackendError(Path("/a/events.3"), full.reason)
    refused.__cause__ = full
    assert {cause_of(e) for e in (short, full, refused, OSError(errno.EFBIG, ""))} == {"full"}
    assert cause_of(OSError(errno.EIO, "")) == "EIO"
    assert cause_of(StorageError("/a/file 7", "is odd")) == cause_of(
        StorageError("/a/file 8", "is odd")
    )


def test_what_an_aggregator_tries_again_is_said_once(monkeypatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(endurance, "say", lines.append)
    attempts = Endurance()

    def write(number: int) -> None:
        raise StorageFullError(f"/run/bus.json.{number}", 100 + number, errno.ENOSPC)

    for number in range(50):
        assert not attempts.attempt("bus.json", lambda number=number: write(number))
    assert len(lines) == 1
    assert attempts.attempt("bus.json", lambda: None)
    assert attempts.attempt("bus.json", lambda: None)
    assert lines[1:] == ["bus.json: works again"]
