"""An open alert is told apart from the values of now, in lines and titles, also after the end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_run import whole_run
from shown_screens import sample_shown, typed

from unilab_schema.alerts import AlertStatus
from unilab_schema.identity import RunInfo
from unilab_sidecar.alerting.alerts import Alert, alerts, trouble_word
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.looking.showing import screen
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels.header import header
from unilab_sidecar.picture import Note, Picture, Reading
from unilab_sidecar.printed.plain import LineTeller, format_line
from unilab_sidecar.series import Series

HIGH = "Loss/critic = 3.225 at iteration 445 (Loss/critic > 3 for 30 iterations)"
OPEN = AlertStatus(9, "rule", "Loss/critic", HIGH, "warn", 445, 0)
SINCE = "W since iter 445: Loss/critic = 3.225 (Loss/critic > 3"
STALLED = "learner of rank 1 (pid 7) has logged nothing for 120 s, last at iteration 445"


def sample_picture(*, is_over: bool = False) -> Picture:
    run, batches = whole_run(60)
    series = Series()
    for batch in [*batches, *([run.batch(run.end())] if is_over else [])]:
        series.add(batch)
    return replace(series.picture(), own_alerts=((OPEN,), 1))


def test_lines_say_of_an_alert_that_it_is_one_and_since_when() -> None:
    picture = sample_picture()
    teller = LineTeller(1.0)
    (first,) = teller.tell(replace(picture, iteration=446), 1, is_over=False)[:1]
    (again,) = teller.tell(replace(picture, iteration=460), 3, is_over=False)[:1]
    assert f"  {SINCE} for 30 iterations)" in first
    assert f"  {SINCE}" in again
    assert "for 30 iterations" not in again
    assert SINCE in LineTeller().once(picture)[0]


def test_no_other_iteration_is_taken_out_of_an_alert() -> None:
    assert Alert(STALLED, "bad", 445).line() == f"! since iter 445: {STALLED}"
    assert Alert(STALLED, "bad", 44).line() == f"! since iter 44: {STALLED}"
    assert Alert("a at iteration 4455", "warn", 445).line().endswith(": a at iteration 4455")
    assert Alert("lost: learner of rank 1").line() == "! lost: learner of rank 1"


def test_lines_have_a_mean_of_the_reward_and_the_end_the_last_report() -> None:
    picture = sample_picture(is_over=True)
    line = LineTeller().once(picture)[0]
    assert "  mean reward -" in line
    assert "  learning 38.06 of 53.22 ms  " in line
    (end,) = LineTeller().tell(picture, 1.0, is_over=True)[1:]
    assert "  last reported reward -" in end


@pytest.mark.parametrize(("key", "narrow"), [("2", 28), ("3", 28), ("4", 40), ("5", 25)])
def test_titles_of_a_run_that_is_over_say_what_is_still_open(key: str, narrow: int) -> None:
    shown = replace(sample_shown(), picture=sample_picture(is_over=True))
    state = typed(shown, ViewState(), key)
    assert len(alerts(shown.picture)) == 1
    assert "COMPLETED · W 1 alert" in screen(shown, state, 80, 24).title
    title = screen(shown, state, narrow, 24).title
    assert "COMPLETED" in title
    assert "alert" not in title


def test_an_end_is_no_alert_beside_itself() -> None:
    crashed = replace(sample_picture(is_over=True), ended="failed", ended_text="boom")
    assert trouble_word(crashed) == "! 2 alerts"
    assert trouble_word(replace(crashed, own_alerts=((), 0))) == ""
    gone = replace(sample_picture(), gone=("A",))
    assert trouble_word(gone) == "! 2 alerts"
    assert trouble_word(replace(gone, own_alerts=((), 0))) == ""


def test_a_training_that_says_nothing_of_its_throughput_has_no_blank_row() -> None:
    picture = sample_picture()
    assert len(header(picture, 120, short=False)) == 4
    silent = replace(
        picture, steps_per_s=None, rows_per_s=None, episode_length=None, env_steps=None, attempt=1
    )
    lines = header(silent, 120, short=False)
    assert len(lines) == 3
    assert all(plain(one).strip() for one in lines)
    told = replace(silent, episode_length=Reading(3.0))
    assert len(header(told, 120, short=False)) == 4


def test_without_a_maximum_there_is_no_time_to_go() -> None:
    picture = sample_picture()
    endless = replace(picture, run=RunInfo("own", "task"), eta_s=None)
    for made, told in ((picture, True), (endless, False)):
        assert ("ETA " in plain(header(made, 120, short=False)[0])) is told
        assert ("  eta " in format_line(made)) is told


@pytest.mark.parametrize("columns", [50, 70])
def test_the_iteration_of_an_event_is_said_once(columns: int) -> None:
    notes = (
        Note("alert", "NaN in Loss/a at iteration 260", 1.0, 260, severity="bad"),
        Note("status", "saved", 2.0, 261),
    )
    shown = sample_shown()
    shown = replace(shown, picture=replace(shown.picture, notes=notes, milestones=()))
    lines = "\n".join(map(plain, screen(shown, typed(shown, ViewState(), "4"), columns, 40).lines))
    assert "NaN in Loss/a at iteration 260" in lines
    assert "iter 260" not in lines
    assert "iter 261" in lines
