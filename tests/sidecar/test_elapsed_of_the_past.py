"""Elapsed time and ETA of a moment of the past, and of a run that is played again: as they were on
the live screen, where ranks do not wait for each other too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from long_history import LongHistory
from msgspec import structs
from series_records import announced, head, learner, update
from shown_screens import sample_shown, typed

from unilab_metrics.subscribe.replay import Replay
from unilab_schema.identity import RunInfo
from unilab_schema.updates import Update
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_questions import MomentQuestion
from unilab_sidecar.feeding.summary_file import told_time
from unilab_sidecar.looking.scrubbing import Place, Scrubbing, moved
from unilab_sidecar.looking.showing import Shown, screen
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels.header import header
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.training_clock import TrainingClock
from unilab_sidecar.series import Series

RECORDS = [
    # Rank 0 takes a second, the other one three.
    update(k, {"Perf/total_fps": 1.0}, iteration=k, elapsed_s=1.0 * k, sealed_s=100 + 3.0 * k)
    for k in range(1, 41)
]


def entry(k: int, **changed: object) -> Update:
    made = RECORDS[k - 1].entry
    assert isinstance(made, Update)
    return structs.replace(made, **changed)


def scrubbed(scrubbing: Scrubbing, k: int) -> Picture:
    question = scrubbing.question(k)
    assert isinstance(question, MomentQuestion)
    scrubbing.answer(question, Moment(k, tuple(RECORDS[:k]), (), 40))
    assert scrubbing.picture is not None
    return scrubbing.picture


def test_a_moment_of_the_past_has_the_elapsed_time_that_it_had() -> None:
    scrubbing, series, live = Scrubbing(), Series(), list[Picture]()
    for k, record in enumerate(RECORDS, start=1):
        at = announced(3.0 * k, learner(0, 40), learner(1, k, age_s=0.0), mono_s=100 + 3.0 * k)
        series.add(Batch((record,), at, connected=True))
        scrubbing.heed((record,), at, is_paused=k > 30)
        live.append(series.picture())
    for k in (10, 25, 40):
        past = scrubbed(scrubbing, k)
        assert past.elapsed_s == pytest.approx(live[k - 1].elapsed_s)
        assert past.elapsed_s == pytest.approx(3.0 * k)
        assert past.eta_s == pytest.approx(live[k - 1].eta_s)
        assert "elapsed 0:" in plain(header(past, 120, short=False)[0])


def test_of_an_ended_run_the_end_tells_it_and_without_one_it_is_said_to_be_rank_0s() -> None:
    scrubbing = Scrubbing()
    scrubbing.heed(RECORDS, None, is_paused=False)
    unknown = scrubbed(scrubbing, 20)
    assert unknown.elapsed_s == 20.0
    scrubbing.let_go()
    scrubbing.ended(120.0)
    assert scrubbed(scrubbing, 20).elapsed_s == pytest.approx(60.0)
    clock = TrainingClock()
    clock.seen(entry(40))
    clock.heed(structs.replace(announced(120.0), ended="completed"))
    assert clock.at(entry(20)) == pytest.approx(60.0)
    # It had not waited for all: how long they went on afterwards nobody knows.
    clock = TrainingClock()
    clock.seen(entry(40, ranks_reported=1))
    clock.ended(500.0)
    assert clock.at(entry(20)) is None


def test_what_nobody_knows_of_the_others_is_called_rank_0s() -> None:
    series = Series()
    series.add(Batch((RECORDS[19],), head(160.0), connected=True))
    live = series.picture()
    assert "elapsed 0:" in plain(header(live, 120, short=False)[0])
    past = replace(live, is_past=True)
    assert "elapsed of rank 0 0:00:20" in plain(header(past, 120, short=False)[0])


def test_another_attempt_or_another_clock_has_no_say() -> None:
    clock = TrainingClock()
    clock.seen(entry(5))
    clock.heed(announced(15.0, learner(1, 5), mono_s=115.0))
    assert clock.at(entry(3)) == pytest.approx(9.0)
    assert clock.at(entry(3, attempt=2)) is None
    assert clock.at(entry(3, sealed_mono_ns=7)) is None
    # Before the first update of the attempt the training has not begun.
    clock.heed(structs.replace(announced(0.0, learner(1, None), mono_s=900.0), attempt=2))
    assert clock.at(entry(3, attempt=2)) is None
    # Everybody is through: from now on the announced time stands still.
    clock.heed(announced(120.0, learner(1, 40, "finished"), mono_s=999.0))
    assert clock.at(entry(3)) == pytest.approx(9.0)
    clock.forget()
    assert clock.at(entry(3)) is None


@pytest.fixture(scope="module")
def two_attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = LongHistory(
        tmp_path_factory.mktemp("replay") / "run", tags=("Loss/critic",), ahead=4.0, ranks=2
    )
    made.updates(1500)
    made.begin_again(after_s=50.0)
    made.updates(1500)
    made.event("status", "done")
    made.end()
    return made.write()


@pytest.mark.parametrize("iteration", [1, 700, 1500, 1501, 2300, 3000])
def test_a_replay_announces_how_long_the_training_had_gone_on(
    two_attempts: Path, iteration: int
) -> None:
    replay = Replay(two_attempts, iteration=iteration, is_still=True)
    replay.poll(0)
    # A tenth of a second for each of all ranks; for rank 0 a quarter of that.
    before_s = 0.025 * 1500 if iteration > 1500 else 0.0
    own = iteration - 1500 if iteration > 1500 else iteration
    assert replay.head.training_s == pytest.approx(before_s + 0.1 * own, abs=0.1)
    assert replay.head.attempt == 1 + (iteration > 1500)


@pytest.mark.parametrize(("iteration", "elapsed_s"), [(700, 70.0), (1400, 140.0), (3000, 65.6)])
def test_a_replay_ends_with_the_time_that_the_run_says_of_itself(
    two_attempts: Path, iteration: int, elapsed_s: float
) -> None:
    # Of the second attempt, whose last updates were sealed long after its end.
    told = {2: 65.6}
    replay = Replay(two_attempts, iteration=iteration, is_still=True, told_s=told.get)
    replay.poll(0)
    assert replay.head.training_s == pytest.approx(elapsed_s, abs=0.1)


def test_an_update_that_was_sealed_late_is_no_time_of_training(two_attempts: Path) -> None:
    replay = Replay(two_attempts, iteration=2300, is_still=True, told_s={2: 60.0}.get)
    replay.poll(0)
    assert (replay.head.training_s, replay.head.ended) == (60.0, None)


def test_what_a_summary_says_of_the_time_is_of_its_attempt(tmp_path: Path) -> None:
    assert told_time(tmp_path, 1) is None
    text = '{"bus": {"attempt": 2}, "training_wall_time_sec": 65.6}'
    (tmp_path / "run_summary.json").write_text(text)
    assert (told_time(tmp_path, 1), told_time(tmp_path, 2)) == (None, 65.6)


def test_a_replay_tells_the_run_as_of_the_attempt_and_how_long_it_is(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", tags=("Loss/critic",))
    made.updates(700)
    made.run = RunInfo("sac", "reach", "numpy", "env_steps", 1500)
    made.begin_again(after_s=5.0)
    made.updates(700)
    run_dir = made.write()
    for iteration, most in ((30, None), (700, None), (701, 1500), (1390, 1500)):
        replay = Replay(run_dir, iteration=iteration, is_still=True)
        assert replay.head.run.max_iterations == most
        assert replay.pace(None, None, is_paused=None).last == 1402 == replay.newest()


def test_a_replay_says_how_far_it_has_come(shown: Shown) -> None:
    played = replace(shown, pace="10×", place=Place(300, 999))
    assert screen(played, ViewState(), 100, 30).title.startswith("REPLAY 10× · 30 % · SAC")
    assert "%" not in screen(replace(played, place=Place()), ViewState(), 100, 30).title
    # From its beginning on one may go to its end.
    scrubbing = Scrubbing()
    assert moved(scrubbing.place(Picture(), 5, 999), "end") == 999
    charts = replace(played, charts=played.charts._replace(is_played=True))
    state = typed(charts, ViewState(), "2")
    assert "played so far" in words(charts, state)
    assert "whole run" not in words(charts, state)
    assert "whole run" in words(shown, state)


def words(made_of: Shown, state: ViewState) -> str:
    return "\n".join(plain(one) for one in screen(made_of, state, 100, 30).lines)


@pytest.fixture(scope="module")
def shown() -> Shown:
    return sample_shown()
