"""The end of an attempt is taken back by more of it, and by nothing else."""

from __future__ import annotations

from sources_on_paper import PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.folding.ending import withdrawal
from unilab_metrics.aggregate.folding.entries import (
    EndWithdrawn,
    Entry,
    GapFound,
    Notice,
    OpenAttempt,
    RunEnd,
    SourceGone,
    SourceJoined,
    SourceReturned,
)
from unilab_metrics.aggregate.folding.late_reports import has_late_reports
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.journaling.recovery import is_copy
from unilab_schema.updates import EventUpdate, RunEnded, Supplement, Update


def over() -> tuple[PaperRun, PaperSource, PaperSource]:
    """Rank 0 has closed after two iterations; rank 1 was lost before its first."""
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(2, {"a": 2.0}), zero.end())
    paper.fold(SourceGone(zero.index, "finished", 0, 0))
    paper.lose(one)
    flush(paper)
    paper.fold(RunEnd("completed", "", 0))
    return paper, zero, one


def flush(paper: PaperRun) -> None:
    while (seal := paper.decider.flush(paper.now, paper.now)) is not None:
        paper.fold(seal)


def take(paper: PaperRun, entry: Entry) -> bool:
    """As the aggregator does; whether the end was taken back for it."""
    back = withdrawal(paper.state.data, entry, 0, 0)
    paper.fold(*([back] if back is not None else []), entry)
    return back is not None


def names(paper: PaperRun) -> list[str]:
    found: list[str] = []
    for _, entry, _ in paper.published:
        is_event = isinstance(entry, EventUpdate)
        found.append(entry.frame.kind if is_event else type(entry).__name__)
    return found


def test_frames_of_the_newest_attempt_take_its_end_back_once() -> None:
    paper, _, one = over()
    before = len(paper.published)
    assert take(paper, one.iteration(1, {"b": 5.0}))
    assert paper.state.data.ended is None
    assert not take(paper, one.iteration(3, {"a": 7.0}))
    flush(paper)
    paper.fold(RunEnd("completed", "", 9))
    assert names(paper)[before:] == ["reopened", "Update", "Supplement", "RunEnded"]
    assert paper.state.data.late_values == 0
    assert [e for _, e, _ in paper.published if isinstance(e, RunEnded)][-1].unix_ns == 9


def test_what_a_sealed_iteration_has_already_is_late_and_nothing_else() -> None:
    paper, _, one = over()
    take(paper, one.iteration(2, {"a": 9.0, "b": 5.0}))
    flush(paper)
    assert paper.last() == {"b": 5.0}
    assert paper.state.data.late_values == 1


def test_a_goodbye_a_gap_a_newcomer_and_one_that_is_back_take_it_back() -> None:
    for make in (
        lambda one: one.end(),
        lambda one: GapFound(one.index, 1, 4, "gone"),
        lambda one: SourceReturned(one.index, 0, 0, "back"),
        lambda one: SourceJoined(2, one.identity),
    ):
        paper, _, one = over()
        assert take(paper, make(one))


def test_an_attempt_that_was_replaced_stays_as_it_is() -> None:
    paper, _, one = over()
    paper.fold(OpenAttempt(2, 0))
    zero = paper.join(0)
    paper.fold(zero.end(), SourceGone(zero.index, "finished", 0, 0), RunEnd("completed", "", 0))
    before = len(paper.published)
    assert not take(paper, one.iteration(3, {"a": 7.0}))
    assert not take(paper, GapFound(one.index, 2, 4, "gone"))
    assert not take(paper, one.end("interrupted"))
    assert len(paper.published) == before
    source = paper.state.data.sources[one.index]
    assert (source.late_values, source.lost_frames, source.ended) == (1, 3, "interrupted")


def test_what_is_only_told_takes_nothing_back() -> None:
    paper, *_ = over()
    assert withdrawal(paper.state.data, Notice("warning", "", 0, 0), 0, 0) is None
    assert withdrawal(paper.state.data, OpenAttempt(2, 0), 0, 0) is None


def test_a_restart_folds_the_same_and_its_second_copy_counts_for_nothing() -> None:
    paper, _, one = over()
    take(paper, one.iteration(3, {"a": 7.0}))
    flush(paper)
    again = AggregatorState()
    published = [p for entry in paper.entries for p in again.handle(entry)]
    assert published == paper.published
    assert is_copy(again, EndWithdrawn(0, 0, ""))
    assert AggregatorState(again.snapshot()).data.ended is None


def test_a_report_whose_iteration_is_sealed_goes_to_the_last_one() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(learner.iteration(1, {"a": 1.0}, t=10), learner.iteration(2, {"a": 2.0}, t=20))
    flush(paper)
    paper.fold(
        collector.report({"reward/x": 3.0, "a": 1.0}, t=5), collector.report({"y": 4.0}, t=30)
    )
    assert has_late_reports(paper.state)
    flush(paper)
    update, values = paper.updates()[-1]
    assert isinstance(update, Supplement)
    assert (update.iteration, values) == (2, {"reward/x": 3.0})
    assert paper.state.data.late_values == 1
    # One more iteration takes the one that was stamped after the second.
    assert not has_late_reports(paper.state)
    paper.fold(learner.iteration(3, {"a": 3.0}, t=40))
    flush(paper)
    update, values = paper.updates()[-1]
    assert isinstance(update, Update)
    assert values["y"] == 4.0


def test_reports_on_another_clock_than_the_learner_are_not_late() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector", boot="another")
    paper.fold(learner.iteration(1, {"a": 1.0}, t=10))
    flush(paper)
    paper.fold(collector.report({"reward/x": 3.0}, t=5))
    assert not has_late_reports(paper.state)
