"""For how long the end of a publisher waits at most, as the README and the guarantees say: by what
it is told to wait, not by a clock."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from spooled import spooled_publisher

from unilab_metrics.publish import long_wait
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.shipper import Shipper

# pyright: reportPrivateUsage=false

pytestmark = pytest.mark.filterwarnings("ignore:.*unsent:RuntimeWarning")


@pytest.fixture
def waits_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was to be waited at most, each time; nobody waits in fact."""
    found: list[float] = []

    def join(thread: threading.Thread, timeout_s: float, awaited: Callable[[], str]) -> None:
        del thread, awaited
        found.append(timeout_s)

    monkeypatch.setattr(long_wait, "join", join)
    return found


def leave_by_an_exception(publisher: Publisher) -> None:
    with contextlib.suppress(ValueError), publisher:
        raise ValueError


@pytest.mark.parametrize(
    ("end", "most_s"),
    [
        (Publisher.close, 30.0),
        (lambda publisher: publisher.close(3.0), 3.0),
        (lambda publisher: publisher.__exit__(None, None, None), 30.0),
        (leave_by_an_exception, 10.0),
    ],
)
def test_it_waits_as_long_as_the_readme_says(
    end: Callable[[Publisher], object], most_s: float, tmp_path: Path, waits_s: list[float]
) -> None:
    end(spooled_publisher(tmp_path))
    assert waits_s == [most_s]


@pytest.mark.parametrize(("bus_seen", "most_s"), [(True, 30.0), (False, 0.5)])
def test_the_exit_waits_for_an_aggregator_that_was_there(
    bus_seen: bool,
    most_s: float,
    tmp_path: Path,
    waits_s: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Shipper, "bus_seen", bus_seen)
    spooled_publisher(tmp_path)._at_exit()
    assert waits_s == [most_s]


def test_a_run_that_nobody_knows_is_waited_for_five_seconds(
    tmp_path: Path, waits_s: list[float]
) -> None:
    publisher = spooled_publisher(tmp_path, lacks_run=lambda: "there is none")
    with pytest.warns(RuntimeWarning, match="there is none"):
        publisher.close()
    assert waits_s == [5.0]
