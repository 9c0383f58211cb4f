"""What a viewer shows that has passed over a part of a run."""

from __future__ import annotations

import threading

from chart_runs import TAG, records_of
from sample_run import FakeSource, SampleRun

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.requests import Snapshot
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.charting.bins import Field
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.feeding.earlier_events import EventsQuestion
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.past_questions import CourseQuestion
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.picture import Picture


def drawn(keeping: ChartKeeping) -> int:
    """How many updates."""
    return int(keeping.store.bins(TAG)[Field.COUNT].sum())


def keeping_from_the_beginning() -> ChartKeeping:
    made = ChartKeeping(lambda _tags: ())
    made.choose((TAG,))
    made.add(records_of([1.0] * 10), is_paused=False)
    question = made.question()
    assert question is not None
    piece = HistoryPiece((TAG,), 0, 10, (), tuple(records_of([1.0] * 10)), complete=True)
    made.answer(question, piece)
    assert made.question() is None
    return made


def test_the_charts_ask_for_what_was_passed_over_and_for_no_more() -> None:
    keeping = keeping_from_the_beginning()
    keeping.add(records_of([3.0] * 5, first=31), is_paused=False)
    question = keeping.question()
    assert question is not None
    assert question == CourseQuestion((TAG,), 10)
    records = records_of([2.0] * 25, first=11)
    keeping.answer(question, HistoryPiece((TAG,), 10, 35, (), tuple(records), complete=True))
    assert keeping.question() is None
    keeping.add(records_of([3.0] * 5, first=36), is_paused=False)
    assert drawn(keeping) == 40


def test_charts_that_stand_still_go_on_standing_still() -> None:
    keeping = keeping_from_the_beginning()
    keeping.add(records_of([1.0] * 5, first=11), is_paused=True)
    keeping.add(records_of([3.0] * 5, first=31), is_paused=True)
    assert keeping.question() is None
    assert drawn(keeping) == 10
    keeping.add(records_of([3.0] * 5, first=36), is_paused=False)
    assert keeping.question() == CourseQuestion((TAG,), 15)


def test_it_is_said_for_a_minute() -> None:
    def said(passed_over_s: float | None) -> str:
        picture = Picture("training", passed_over=1234, passed_over_s=passed_over_s)
        return " ".join(alert.text for alert in alerts(picture))

    assert "passed over 1,234 updates" in said(3.0)
    assert "passed over" not in said(None)
    assert "passed over" not in said(100.0)


def test_events_from_before_joining_are_asked_for_up_to_there_and_not_to_the_hole() -> None:
    run = SampleRun()
    watching = Watching("")
    watching.take(run.batch(*records_of([1.0], first=500)), is_paused=False)
    watching.take(run.batch(*records_of([1.0], first=900)), is_paused=False)
    watching.looked_at()
    asked = watching.questions(ViewState(view="events"))
    assert [one for one in asked if isinstance(one, EventsQuestion)] == [EventsQuestion(499)]


class Hasty(FakeSource):
    """Passes over a part of it once it may."""

    polls = 0

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        self.polls += 1
        if self.polls == 3 and self.keeps_up:
            self.passed_over = 77
        return super().poll(timeout_ms)

    def snapshot(self) -> Snapshot | None:
        return SNAPSHOTS[1 if self.passed_over else 0]


EPOCH = SampleRun().head().epoch
SNAPSHOTS = [Snapshot(0, EPOCH, n, (), b"", b"") for n in range(2)]


def test_the_feed_tells_how_much_and_hands_the_values_over_anew() -> None:
    for keeps_up, expected in ((True, SNAPSHOTS), (False, SNAPSHOTS[:1])):
        feed = Feed(Hasty, wait_for_bus=False)
        feed.keeps_up = keeps_up
        thread = threading.Thread(target=feed.run)
        thread.start()
        batches = [one for _ in range(8) for one in feed.wait(5.0)]
        feed.stop()
        thread.join(10.0)
        given = [one.snapshot for one in batches if one.snapshot is not None]
        assert given == expected
        last = batches[-1]
        assert last.passed_over == (77 if keeps_up else 0)
        assert (last.passed_over_s is not None) == keeps_up
