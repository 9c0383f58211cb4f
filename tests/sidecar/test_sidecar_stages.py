"""What a screen knows of the run itself: stages, events, refusals, the aggregator's silence."""

from __future__ import annotations

import json
import math

from msgspec import structs
from screen_text import text
from series_records import SAC, S, event, head, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Epoch, SourceFigures, SourceStatus
from unilab_schema.frames import EventFrame
from unilab_schema.identity import SourceKey
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.summary import Summary, summary_in
from unilab_sidecar.picture import Reading
from unilab_sidecar.series import Series


def test_stages_from_connecting_to_ended():
    series = Series()
    assert series.picture().stage == "connecting"
    series.add(Batch((), head(1.0), connected=True))
    assert series.picture().stage == "waiting"
    series.add(Batch((event(1, "status", "filling", fill=0.25),), connected=True))
    progress = series.picture().progress
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.25, "filling")
    series.add(Batch((update(2, {"x": 1.0}),), connected=True))
    assert (series.picture().stage, series.picture().progress) == ("training", None)
    series.add(Batch((HistoryRecord(3, RunEnded(1, "failed", 0), ()),), connected=True))
    assert (series.picture().stage, series.picture().ended) == ("ended", "failed")


def test_after_the_end_nothing_waits_any_more():
    series = Series()
    values = {"Bus/backlog_frames": 88.0, "Bus/ack_latency_ms": 1561.0, "Bus/publish_us": 7.0}
    series.add(Batch((update(1, values),), head(1.0), connected=True))
    assert series.picture().bus.backlog == Reading(88.0)
    series.add(Batch((), head(2.0, ended="completed"), connected=True))
    bus = series.picture().bus
    assert (bus.backlog, bus.ack_latency_ms) == (None, None)
    assert bus.publish_us == Reading(7.0)


def test_an_ended_run_says_itself_who_took_part_and_what_was_written():
    bus = {
        "attempt": 1, "updates": 7, "backends": {"tensorboard": 6, "bad": None}, "late_values": 2,
        "lost_frames": 3, "dropped_calls": {"spool_quota": 4}, "quarantined_frames": 1,
        "sources": [
            {"rank": 1, "role": "collector", "instance": 2, "host": "n", "pid": 9, "state": "lost",
             "journaled_frames": 5, "lost_frames": 3, "dropped_calls": {"spool_quota": 4}},
            {"rank": 1}, "nonsense",
        ],
    }  # fmt: skip
    said = summary_in(json.dumps({"bus": bus}).encode(), 1)
    series = Series()
    end = HistoryRecord(2, RunEnded(1, "completed", 0), ())
    series.add(Batch((update(1, {"x": 1.0}), end), summary=said))
    shown = series.picture()
    assert shown.dropped == 7
    assert [s.key for s in shown.sources] == [SourceKey(1, "collector", 2)]
    assert (shown.sources[0].state, shown.sources[0].lost_frames) == ("lost", 3)
    assert [(b.name, b.state, b.update) for b in shown.backends] == [("tensorboard", "finished", 6)]
    assert (shown.journal.update, shown.journal.durable) == (7, 7)
    assert (shown.journal.late_values, shown.journal.quarantined) == (2, 1)
    screen = text(shown, 120)
    for words in ("lost", "collector.2", "1 behind", "all on disk", "dropped 7"):
        assert words in screen
    # A later attempt is not over.
    series.add(Batch((HistoryRecord(3, AttemptOpened(2, 0, SAC), ()),)))
    assert series.picture().sources == ()


def test_what_older_attempts_lost_is_an_event_and_no_headline():
    lost = "collector of rank 0 (pid 7 on n) ended without close()"
    opened = HistoryRecord(3, AttemptOpened(2, 0, SAC), ())
    series = Series()
    frame = EventFrame("lost", lost, 0, 0, None, {})
    said = HistoryRecord(1, EventUpdate(1, None, frame), ())
    series.add(Batch((said, event(2, "status", "old"), opened)))
    series.add(Batch((update(4, {"x": 1.0}, attempt=2),), head(5.0, attempt=2), connected=True))
    for columns in (80, 120):
        screen = text(series.picture(), columns).split("Events")
        assert lost not in screen[0]
        assert "old" not in screen[0]
        assert lost in " ".join(screen[1].split())
        assert "status" in screen[1]


def test_a_new_attempt_is_not_ended():
    series = Series()
    series.add(Batch((HistoryRecord(1, RunEnded(1, "failed", 0), ()),), head(1.0, ended="failed")))
    series.add(Batch((HistoryRecord(2, AttemptOpened(2, 0, SAC), ()),)))
    assert series.picture().ended is None


def test_configuration_and_summary_events_are_no_notes():
    shown = picture(event(1, "config", "{}"), event(2, "summary"), event(3, "warning", "look"))
    assert [note.text for note in shown.notes] == ["look"]


def test_an_event_of_all_ranks_is_one_note_with_its_ranks():
    shown = picture(
        event(1, "training_started", rank=1),
        event(2, "training_started", rank=0),
        event(3, "status", "again", rank=0),
        event(4, "status", "again", rank=0),
    )
    assert [(note.text, note.ranks) for note in shown.notes] == [
        ("training started", (0, 1)),
        ("again", (0,)),
        ("again", (0,)),
    ]


def test_refusals_are_named_once_and_push_nothing_out():
    refusals = [
        event(i, "warning", f"tag_{i % 80}: None is no number", reason="bad_value", rank=i % 2)
        for i in range(1, 400)
    ]
    shown = picture(event(0, "checkpoint", "model_1.pt"), *refusals)
    assert shown.notes[0].text == "model_1.pt"
    assert len(shown.notes) <= 51
    assert shown.refused[:2] == ("tag_1", "tag_2")
    assert len(shown.refused) == len(set(shown.refused)) == 64
    assert shown.refused_more >= 16


def test_a_warning_that_refuses_nothing_is_an_event_like_others():
    shown = picture(event(1, "warning", "rank 1: is late"))
    assert (shown.refused, shown.notes[0].refused) == ((), False)
    text = "the aggregator died of signal 9; next start in 1 s"
    died = event(1, "warning", text, helper="aggregator", by="rank 0", reason="died of signal 9")
    assert (picture(died).refused, picture(died).notes[0].refused) == ((), False)


# --- contact -----------------------------------------------------------------------------


def statuses(state: str, age_s: float) -> tuple[SourceStatus, ...]:
    return tuple(
        SourceStatus(SourceKey(rank, "learner"), 1, "here", state, age_s, None, 1, 1, {"quota": 2})
        for rank in (0, 1)
    )


def heard(mono_s: float, sources: tuple[SourceStatus, ...], counter: int = 1) -> Batch:
    made = structs.replace(head(mono_s), sources=sources, epoch=Epoch(b"j" * 16, counter))
    return Batch((), made, connected=True)


def test_sources_that_a_new_aggregator_has_not_heard_are_awaited_and_not_silent():
    series = Series()

    def states() -> set[str]:
        return {source.state for source in series.picture().sources}

    series.add(heard(1.0, statuses("live", 0.1)))
    assert series.picture().restarted_s is None
    series.add(heard(2.0, statuses("live", 0.0), 2))
    assert series.picture().restarted_s == 0.0
    series.add(heard(8.0, statuses("silent", 6.1), 2))
    assert states() == {"awaited"}
    assert series.picture().restarted_s == 6.0
    series.add(heard(9.0, statuses("live", 0.2), 2))
    assert states() == {"live"}
    # Heard, and silent again: that is its own.
    series.add(heard(15.0, statuses("silent", 5.5), 2))
    assert states() == {"silent"}


def test_the_aggregator_of_another_attempt_has_not_come_back():
    series = Series()
    series.add(heard(1.0, statuses("live", 0.1)))
    for mono_s, counter, restarted_s in ((2.0, 2, None), (3.0, 2, None), (4.0, 3, 0.0)):
        made = heard(mono_s, statuses("silent", 9.0), counter).head
        assert made is not None
        series.add(Batch((), structs.replace(made, attempt=2), connected=True))
        picture = series.picture()
        assert picture.restarted_s == restarted_s, "within an attempt it is back"
        if counter == 2:
            assert {source.state for source in picture.sources} == {"awaited"}


def test_a_source_that_does_not_come_back_is_silent_at_last():
    series = Series()
    series.add(heard(1.0, statuses("live", 0.1)))
    series.add(heard(2.0, statuses("live", 0.0), 2))
    series.add(heard(18.0, statuses("silent", 16.0), 2))
    assert {source.state for source in series.picture().sources} == {"silent"}
    assert series.picture().restarted_s is None


def test_what_was_dropped_is_unknown_where_nobody_says_it():
    series = Series()
    series.add(Batch((update(1, {"x": 1.0}), HistoryRecord(2, RunEnded(1, "completed", 0), ()))))
    assert series.picture().dropped is None
    series.add(Batch(summary=Summary(1600)))
    assert series.picture().dropped == 1600
    series.add(heard(1.0, statuses("live", 0.1)))
    assert series.picture().dropped == 6


def test_files_without_an_aggregator_are_no_contact():
    series = Series()
    assert series.picture().silent_s == 0
    series.add(Batch((update(1, {"x": 1.0}),)))
    assert math.isinf(series.picture().silent_s)


def test_half_of_a_history_is_never_shown():
    series = Series()
    series.add(Batch((HistoryRecord(1, AttemptOpened(1, 0, SAC), ()), update(2, {"x": 1.0})),
                     behind=True))  # fmt: skip
    loading = series.picture()
    assert (loading.stage, loading.iteration, loading.run) == ("loading", None, SAC)
    series.add(Batch((update(3, {"x": 1.0}),)))
    assert series.picture().iteration == 3


def test_events_of_an_ended_run_are_told_from_its_end():
    series = Series()
    series.add(Batch((event(1, "checkpoint", "a.pt", at_s=10.0), update(2, {"x": 1.0}))))
    assert series.picture().note_reference == "last entry"
    series.add(Batch((HistoryRecord(3, RunEnded(1, "completed", 25 * S), ()),)))
    shown = series.picture()
    assert (shown.note_reference, shown.notes[0].age_s) == ("end", 15.0)


def test_the_backlog_is_the_sources_own_word_while_nothing_can_be_journaled():
    series = Series()
    values = {"Bus/backlog_frames": 3.0, "Bus/ack_latency_ms": 12.0}
    told = tuple(
        structs.replace(status, figures=SourceFigures(4000, 1, 1))
        for status in statuses("live", 0.1)
    )
    series.add(Batch((update(1, values),), structs.replace(head(1.0), sources=told)))
    assert series.picture().bus.backlog == Reading(3.0)
    full = structs.replace(head(2.0), sources=told, journal_full="no room")
    series.add(Batch((), full))
    assert series.picture().bus.backlog == Reading(8000.0)
    assert series.picture().bus.ack_latency_ms is None


def test_sources_of_an_aggregator_that_did_not_see_the_end_are_not_shown():
    series = Series()
    series.add(heard(1.0, statuses("live", 0.1)))
    assert series.picture().sources
    end = HistoryRecord(9, RunEnded(1, "failed", 0, "ended without close(): learner of rank 0"), ())
    made = structs.replace(head(1.0), sources=statuses("live", 0.1))
    series.add(Batch((end,), made, head_age_s=9.0))
    assert series.picture().sources == ()
    assert series.picture().ended_text == "ended without close(): learner of rank 0"


def test_where_the_viewer_sees_the_run_is_what_it_says():
    series = Series("here")
    series.add(Batch((), head(1.0), gone=("A",)))
    assert (series.picture().run_dir, series.picture().gone) == ("here", ("A",))


def test_nobody_of_a_run_that_was_cut_off_is_called_live():
    series = Series()
    series.add(heard(1.0, statuses("live", 0.1)))
    series.add(Batch((), head_age_s=9.0, gone=("A",)))
    assert {source.state for source in series.picture().sources} == {"gone"}
    series.add(heard(20.0, statuses("live", 0.1), 2))
    assert {source.state for source in series.picture().sources} == {"live"}
    series.add(Batch((), head(21.0, ended="completed"), gone=("A",)))
    assert series.picture().gone is None
