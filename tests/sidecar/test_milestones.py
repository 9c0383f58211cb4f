"""Starts and ends of attempts among the events, and how the end of a training is called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_run import RUN, START_UNIX_NS, SampleRun
from screen_text import text
from shown_screens import sample_shown, text_of

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.updates import AttemptOpened, RunEnded
from unilab_sidecar.alerting.alerts import alerts, border, end_word
from unilab_sidecar.events.milestones import with_milestones
from unilab_sidecar.looking.showing import screen
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.printed.plain import LineTeller
from unilab_sidecar.progress.standing import last_words, state
from unilab_sidecar.series import Series

STOPPED = "learner of rank 0 stopped: KeyboardInterrupt"
OLD_WORDS = "learner of rank 0 failed: KeyboardInterrupt"
CRASHED = "learner of rank 0 failed: RuntimeError: boom at 900"


def ended(status: str, *told: str) -> Picture:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), *(run.update() for _ in range(40))))
    series.add(run.batch(*(run.event("status", one) for one in told), run.end(status)))
    return series.picture()


def events(picture: Picture, columns: int = 120) -> str:
    shown = replace(sample_shown(5), picture=picture)
    return text_of(screen(shown, ViewState(view="events"), columns, 30))


def test_a_training_without_events_of_its_own_has_a_start_and_an_end() -> None:
    for columns in (60, 80, 120):
        told = events(ended("completed"), columns)
        assert "Nothing has happened" not in told
        assert "start" in told
        assert "completed" in told
        assert "attempt 1 after 0:00:02" in " ".join(told.split())


def test_ends_and_starts_stand_between_the_events_of_their_attempts() -> None:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), run.event("checkpoint", "a"), run.end("failed")))
    opened = HistoryRecord(run.sequence + 1, AttemptOpened(2, START_UNIX_NS, RUN), ())
    series.add(run.batch(opened))
    picture = series.picture()
    said = [(note.kind, note.attempt) for note in with_milestones(picture)]
    assert said == [("start", 1), ("checkpoint", 1), ("failed", 1), ("start", 2)]
    newer = replace(picture, notes=(*picture.notes, Note("lost", "b", 0.0, attempt=2)))
    assert [note.kind for note in with_milestones(newer)][-2:] == ["start", "lost"]


def test_what_follows_an_end_takes_it_back() -> None:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), run.update(), run.end("failed")))
    run.ended = None
    series.add(run.batch(run.update()))
    assert [note.kind for note in series.picture().milestones] == ["start"]


def test_why_a_training_failed_is_known_though_its_end_does_not_say_it() -> None:
    picture = ended("failed", "evaluation done", CRASHED, "the collector waits")
    assert picture.ended_text == CRASHED
    assert CRASHED in [alert.text for alert in alerts(picture)]
    (line,) = LineTeller().once(picture)
    assert line.endswith(f"run ended: failed ({CRASHED})")
    assert line.count("boom") == 1
    assert (end_word(picture), border(picture)) == ("FAILED", "failed")


def test_an_end_that_says_why_is_not_asked_further() -> None:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), run.event("status", CRASHED)))
    said = RunEnded(1, "failed", START_UNIX_NS, "ended without close(): learner of rank 0")
    series.add(run.batch(HistoryRecord(run.sequence + 1, said, ())))
    assert series.picture().ended_text == said.text
    assert ended("completed", CRASHED).ended_text == ""


@pytest.mark.parametrize("told", [STOPPED, OLD_WORDS])
def test_a_training_that_somebody_stopped_does_not_look_like_a_crash(told: str) -> None:
    picture = ended("failed", told)
    assert picture.ended == "failed"
    assert state(picture).text == "■ run ended: stopped (KeyboardInterrupt)"
    assert state(picture).style == "warn"
    assert (end_word(picture), border(picture)) == ("STOPPED", "ended")
    assert alerts(picture) == ()
    assert last_words(picture) == "The run has ended: stopped (KeyboardInterrupt)."
    (line,) = LineTeller().once(picture)
    assert line.endswith("run ended: stopped (KeyboardInterrupt)")
    assert "stopped" in events(picture)
    assert "stopped (KeyboardInterrupt)" in text(picture, 120)


def test_an_error_that_is_only_named_like_one_is_a_failure() -> None:
    picture = ended("failed", "learner of rank 0 failed: KeyboardInterruptible: no")
    assert end_word(picture) == "FAILED"


def test_whose_an_event_is_reads_the_same_wherever_it_is_listed_and_once() -> None:
    both = Note("status", "synced", 1.0, None, (0, 1))
    named = Note("status", "rank 1: warm-up done", 2.0, None, (1,))
    picture = replace(ended("completed"), notes=(named, both))
    overview = text(picture, 160)
    assert "ranks 0, 1" in overview
    assert "ranks 0, 1" in events(picture, 78)
    for told in (overview, events(picture, 78), events(picture, 60)):
        rows = [row for row in told.splitlines() if "warm-up done" in row]
        assert rows
        assert all(row.count("rank 1") == 1 for row in rows)
    (row,) = [row for row in events(picture).splitlines() if "warm-up done" in row]
    assert "rank 1:" not in row
    assert " 1 " in row
