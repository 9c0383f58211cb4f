"""From when on a learner is far behind the others."""

from __future__ import annotations

import pytest

from unilab_schema.control import SourceStatus
from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_sidecar.alerting.lagging import laggard
from unilab_sidecar.picture import Laggard


def source(
    rank: int, iteration: int | None, *, age_s: float | None = 0.1, role: str = LEARNER
) -> SourceStatus:
    return SourceStatus(
        SourceKey(rank, role), 1, "h", "live", 0.1, age_s, 5, 0, iteration=iteration
    )


@pytest.mark.parametrize(("iteration", "is_named"), [(95, False), (94, True)])
def test_more_than_five_iterations(iteration: int, is_named: bool) -> None:
    found = laggard((source(0, 100), source(1, iteration)), 1000.0)
    assert (found is not None) is is_named


@pytest.mark.parametrize(("elapsed_s", "is_named"), [(20.0, False), (20.1, True)])
def test_that_take_the_fastest_more_than_two_seconds(elapsed_s: float, is_named: bool) -> None:
    found = laggard((source(0, 100), source(1, 90)), elapsed_s)
    assert (found is not None) is is_named


@pytest.mark.parametrize(("age_s", "is_named"), [(15.0, True), (15.1, False), (None, True)])
def test_who_has_sent_nothing_for_ten_iterations_and_five_seconds_logs_no_more(
    age_s: float | None, is_named: bool
) -> None:
    found = laggard((source(0, 100), source(1, 10, age_s=age_s)), 100.0)
    assert (found is not None) is is_named


def test_the_one_that_is_furthest_behind_is_named_and_collectors_are_none() -> None:
    sources = source(0, 100), source(1, 50), source(2, 40), source(3, 1, role=COLLECTOR)
    assert laggard(sources, 100.0) == Laggard(2, 40, 60)
    assert laggard(sources, None) is None
    assert laggard((source(0, 0), source(1, 0)), 100.0) is None
