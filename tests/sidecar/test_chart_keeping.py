"""What the charts keep while the display stands still, and of names that somebody invents."""

from __future__ import annotations

import pytest
from chart_runs import TAG, record, records_of
from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.subscribe.history_record import HistoryRecord
from unilab_schema.frames import Point, PointsFrame
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.updates import PointsUpdate
from unilab_sidecar.charting import keeping as chart_keeping
from unilab_sidecar.charting.keeping import MOST_POINT_TAGS, ChartKeeping
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.views.charts import view


def drawn(keeping: ChartKeeping) -> int:
    """Up to which entry."""
    return keeping._through


def chosen() -> ChartKeeping:
    made = ChartKeeping(lambda _tags: ())
    made.choose((TAG,))
    asked = made.question()
    assert asked is not None
    made.answer(asked, HistoryPiece((TAG,), 0, 0, complete=True))
    made.add(records_of([1.0] * 10), is_paused=False)
    return made


def test_what_comes_while_the_display_stands_still_is_drawn_afterwards() -> None:
    keeping = chosen()
    assert drawn(keeping) == 10
    keeping.add(records_of([1.0] * 10, first=11), is_paused=True)
    assert drawn(keeping) == 10
    keeping.add(records_of([1.0] * 10, first=21), is_paused=False)
    assert drawn(keeping) == 30


def header(keeping: ChartKeeping) -> str:
    """Both lines of words over the charts."""
    data = ChartData(keeping.store, (TAG,), live=True, is_behind=keeping.is_behind)
    return " ".join(map(plain, view(data, ChartState((TAG,)), 100, 30).lines[:2]))


def test_charts_of_a_paused_display_reach_as_far_as_the_moment_it_shows() -> None:
    keeping = chosen()
    keeping.add((), is_paused=True)
    assert "whole run" in header(keeping)
    keeping.add(records_of([1.0] * 10, first=11), is_paused=True)
    assert "iteration 1 to 10 · without what came later" in header(keeping)
    assert "last drawn iteration 10 " in header(keeping)
    for shown, reached in ((1, 10), (15, 15), (3, 15), (20, 20)):
        keeping.reach(shown)
        assert f"iteration 1 to {reached} ·" in header(keeping)
    assert "whole run" in header(keeping)
    assert "newest iteration 20 " in header(keeping)
    # A moment may be told of before its entries have come.
    keeping.reach(25)
    keeping.add(records_of([1.0] * 10, first=21), is_paused=True)
    assert "iteration 1 to 25 · without what came later" in header(keeping)
    keeping.add((), is_paused=False)
    assert "iteration 1 to 30 · whole run" in header(keeping)
    keeping.add((), is_paused=True)
    keeping.add(records_of([1.0] * 10, first=31), is_paused=True)
    assert drawn(keeping) == 30


def test_nobody_moves_the_charts_of_a_live_display() -> None:
    keeping = chosen()
    keeping.reach(1000)
    keeping.add(records_of([1.0] * 10, first=11), is_paused=True)
    assert drawn(keeping) == 10


def test_a_moment_behind_a_hole_has_what_is_missing_asked_for() -> None:
    keeping = chosen()
    keeping.add(records_of([1.0] * 10, first=31), is_paused=True)
    assert keeping.question() is None
    assert "without what came later" in header(keeping)
    keeping.reach(30)
    assert keeping.question() is None
    keeping.reach(31)
    question = keeping.question()
    assert question is not None
    assert question.after == 10


@given(st.lists(st.tuples(st.sampled_from(["come", "pause", "live", "reach"]), st.integers(1, 60))))
def test_what_is_drawn_ends_at_the_pause_or_the_furthest_moment_since(
    steps: list[tuple[str, int]],
) -> None:
    keeping = chosen()
    come, is_paused, limit = 10, False, 10
    for what, number in steps:
        match what:
            case "come":
                keeping.add(records_of([1.0] * number, first=come + 1), is_paused=is_paused)
                come += number
            case "reach":
                keeping.reach(number)
                limit = max(limit, number)
            case _:
                is_paused = what == "pause"
                keeping.add((), is_paused=is_paused)
        if not is_paused:
            limit = come
        assert drawn(keeping) == min(limit, come)
        assert keeping.is_behind == (drawn(keeping) < come)
        assert keeping._held_bytes == 8 * (come - drawn(keeping))


@pytest.mark.parametrize("tags", [1, 100])
def test_so_much_waits_at_the_most(monkeypatch: pytest.MonkeyPatch, tags: int) -> None:
    monkeypatch.setattr(chart_keeping, "MOST_HELD", 200)
    monkeypatch.setattr(chart_keeping, "MOST_HELD_BYTES", 50 * 100 * 8)
    keeping = chosen()
    names = (TAG, *(f"other/{n}" for n in range(tags - 1)))
    most = 0
    for number in range(11, 1011):
        keeping.add([record(number, names, [1.0] * tags)], is_paused=True)
        most = max(most, number - drawn(keeping))
    assert most == (200 if tags == 1 else 50)


def test_names_of_points_are_offered_up_to_a_number() -> None:
    keeping = chosen()
    key = SourceKey(0, LEARNER)
    for number in range(40):
        points = tuple(Point(f"a{number}/{n}", 1.0, n, n) for n in range(1000))
        entry = PointsUpdate(1, key, PointsFrame(points))
        keeping.add([HistoryRecord(11 + number, entry, ())], is_paused=False)
    assert MOST_POINT_TAGS <= len(keeping.point_tags) < MOST_POINT_TAGS + 1000
