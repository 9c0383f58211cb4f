"""What is shown while announcements wait on a slow line."""

from __future__ import annotations

import pytest
from series_records import head, update

from unilab_sidecar.alerting.reading_troubles import reading_troubles
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series


def shown(late_s: float, *, announced_s: float = 10.0, age_s: float = 0.5) -> Picture:
    """With a newest update of second 20."""
    series = Series()
    records = (update(1, {"a": 1.0}, sealed_s=20.0),)
    series.add(Batch(records, head(announced_s), connected=True, head_age_s=age_s, late_s=late_s))
    return series.picture()


def test_ages_count_from_when_an_announcement_was_made() -> None:
    assert shown(30.0).age_s == pytest.approx(20.5)
    assert shown(0.0, announced_s=21.0).age_s == pytest.approx(1.5)


def test_an_announcement_that_is_older_than_what_is_shown_makes_that_no_older() -> None:
    assert shown(10.2).age_s == pytest.approx(0.7)
    assert shown(0.0).age_s == 0.0


def test_a_slow_line_is_named() -> None:
    assert any("30 s late" in one for one in reading_troubles(shown(30.0)))
    assert not reading_troubles(shown(1.0))
