"""What happened before a viewer joined: the last events, however far back, within bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chart_runs import TAG, record

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.past_files import Stretch
from unilab_schema.codec import KIND_OF
from unilab_schema.frames import EventFrame, Point, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, EventUpdate, PointsUpdate, RunEnded
from unilab_sidecar.events.milestones import Milestones
from unilab_sidecar.events.notes import KEPT, MAX_REFUSED, Notes
from unilab_sidecar.feeding.earlier_events import (
    MOST_STEPS,
    EventsBefore,
    EventsQuestion,
    PointsQuestion,
    tags_of,
)

LEARNER = SourceKey(0, "learner")


class OnPaper:
    """A run in which something happens now and then; looks at ``most`` entries at once."""

    def __init__(self, count: int, events: Sequence[int], *, most: int = 5000) -> None:
        self._count, self._events, self._most = count, sorted(events), most
        self.looks = 0
        self.is_gone = False

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        assert not tags
        self.looks += 1
        if self.is_gone:
            return NoAnswer("gone")
        last = min(after + self._most, self._count)
        found = [event(at) for at in self._events if after < at <= last]
        return Stretch(tuple(r for r in found if KIND_OF[type(r.entry)] in kinds), last)


def event(at: int, kind: str = "checkpoint") -> HistoryRecord:
    frame = EventFrame(kind, f"saved {at}", at, at, at, {})
    return HistoryRecord(at, EventUpdate(1, LEARNER, frame), ())


def answer(question: EventsQuestion, source: OnPaper) -> EventsBefore | NoAnswer:
    asked = question
    for _ in range(1000):
        reply = asked.put(source)
        if isinstance(reply, EventsBefore | NoAnswer):
            return reply
        assert isinstance(reply, EventsQuestion)
        asked = reply
    raise AssertionError("it never ends")


def test_events_far_back_are_found_in_order() -> None:
    source = OnPaper(60_000, [10, 20_000, 58_000, 59_999])
    reply = answer(EventsQuestion(59_000), source)
    assert isinstance(reply, EventsBefore)
    assert [one.sequence for one in reply.records] == [10, 20_000, 58_000]


def test_enough_events_end_the_search() -> None:
    source = OnPaper(6_000_000, range(1, 6_000_001, 50))
    reply = answer(EventsQuestion(5_999_000), source)
    assert isinstance(reply, EventsBefore)
    assert len(reply.records) >= EventsQuestion.ENOUGH
    assert source.looks < 5
    numbers = [one.sequence for one in reply.records]
    assert numbers == list(range(numbers[0], 5_999_001, 50))


@pytest.mark.parametrize("most", [1, 100, 5000])
def test_a_week_without_events_costs_a_bounded_search(most: int) -> None:
    source = OnPaper(6_000_000, [5_999_500], most=most)
    reply = answer(EventsQuestion(6_000_000), source)
    assert source.looks <= MOST_STEPS
    assert isinstance(reply, EventsBefore)
    # What was not reached without a hole is left out.
    assert [one.sequence for one in reply.records] == ([] if most == 1 else [5_999_500])


def test_nobody_to_ask_is_said() -> None:
    source = OnPaper(100, [50])
    source.is_gone = True
    assert answer(EventsQuestion(100), source) == NoAnswer("gone")


def test_tags_of_points_are_found_alike() -> None:
    class Points(OnPaper):
        def stretch(self, after: int, limit: int, *more: object) -> Stretch:
            frame = PointsFrame((Point("Eval/return", 1.0, 5, 5),))
            told = (record(after + 1, (TAG,), [1.0]),
                    HistoryRecord(after + 2, PointsUpdate(1, LEARNER, frame), ()))  # fmt: skip
            return Stretch(told, after + 5000)

    reply = answer(PointsQuestion(800), Points(800, []))
    assert isinstance(reply, EventsBefore)
    assert tags_of(reply.records) == {"Eval/return"}
    assert len(reply.records) == 1


def test_earlier_notes_stand_before_those_that_are_here() -> None:
    notes = Notes()
    for at in (100, 110):
        notes.add(event(at).entry)  # type: ignore[arg-type]
    notes.earlier([event(at).entry for at in range(1, 90)])
    texts = [one.text for one in notes.all(None)]
    assert len(texts) == KEPT
    assert texts[-3:] == ["saved 89", "saved 100", "saved 110"]
    notes.add(event(120).entry)  # type: ignore[arg-type]
    assert [one.text for one in notes.all(None)][-1] == "saved 120"


def test_refusals_from_before_count_too() -> None:
    def refusal(number: int) -> EventUpdate:
        frame = EventFrame("warning", f"tag {number}: no", 1, 1, 1, {"reason": "no"})
        return EventUpdate(1, LEARNER, frame)

    notes = Notes()
    for number in range(60, 64):
        notes.add(refusal(number))
    notes.earlier([refusal(number) for number in range(66)])
    assert notes.refused[0] == "tag 0"
    assert len(notes.refused) == MAX_REFUSED
    assert notes.refused_more == 2


def test_earlier_attempts_stand_before_this_one() -> None:
    milestones = Milestones()
    milestones.heed(AttemptOpened(2, 200, RunInfo()), None)
    milestones.earlier(
        [AttemptOpened(1, 100, RunInfo()), RunEnded(1, "failed", 150), AttemptOpened(2, 200, RunInfo())]
    )  # fmt: skip
    assert [(one.kind, one.attempt) for one in milestones.all(None)] == [
        ("start", 1), ("failed", 1), ("start", 2),
    ]  # fmt: skip


def test_an_end_that_was_taken_back_before_joining_is_none() -> None:
    milestones = Milestones()
    milestones.earlier([AttemptOpened(1, 100, RunInfo()), RunEnded(1, "failed", 150)])
    assert [one.kind for one in milestones.all(None)] == ["start"]
