"""The overview in every state: waiting, silent, ended, in trouble, with room to spare."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from sample_run import RUN, SampleRun
from screen_text import find, text

from unilab_sidecar.drawing.layout import FRAME_CELLS
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.picture import Note, Picture, Progress
from unilab_sidecar.printed.plain import format_line
from unilab_sidecar.progress.standing import state
from unilab_sidecar.views.overview import layout


def test_an_empty_screen_says_what_it_waits_for():
    assert "connecting" in text(Picture(), 80)
    waiting = Picture(stage="waiting", run=RUN, connected=True)
    assert "waiting for the first update" in text(waiting, 80)
    warm = replace(waiting, progress=Progress(0.4, "warm-up: 40 of 100 replay rows"))
    screen = text(warm, 100)
    assert "40.0 %" in screen
    assert "warm-up: 40 of 100 replay rows" in screen
    assert "━" in screen


def test_a_viewer_says_what_it_connects_to():
    shown = text(Picture(target="me@cluster:logs/sac/2026-03-09"), 100)
    assert "◌ connecting to me@cluster:logs/sac/2026-03-09" in shown
    for target in ("logs/[bold]\x1b[31m", "x" * 300):
        row = text(Picture(target=target), 80).splitlines()[0]
        assert row.startswith("◌ connecting to ")
        assert "\x1b" not in row
        assert len(row) <= 80 - FRAME_CELLS


def test_an_ended_run_says_so_with_its_status(training: Picture):
    screen = text(replace(training, stage="ended", ended="failed"), 100)
    assert "run ended: failed" in screen
    assert "ETA" not in screen


def test_a_run_that_failed_does_not_have_the_sign_of_one_that_was_stopped(training: Picture):
    signs = {ended: state(replace(training, ended=ended)) for ended in ("completed", "failed")}
    stopped = state(replace(training, ended="stopped", ended_text="stopped by SIGTERM"))
    assert [signs["completed"].text[0], signs["failed"].text[0], stopped.text[0]] == list("✓✗■")


def test_lost_contact_is_shown_with_its_age(training: Picture):
    silent = replace(training, connected=True, silent_s=2.5)
    screen = text(silent, 100)
    assert "○ aggregator silent for 2.5 s" in screen
    assert "training  " not in screen
    assert "2.5 s ago: ● 4 live" in screen
    assert "as of 2.5 s ago" in screen.splitlines()[find(screen, "Sources")[0]]
    assert format_line(silent).endswith("aggregator silent for 2.5 s")
    assert "no aggregator" in text(replace(training, silent_s=math.inf), 80)
    assert "silent" not in text(replace(training, silent_s=1.9), 100)


def test_a_key_that_was_taken_out_is_said_beside_the_last_picture(training: Picture):
    reason = "tcp://h:1 does not let watch.key in: it was taken off"
    shown = replace(training, silent_s=7.0, refusal=reason)
    for columns in (80, 120):
        screen = text(shown, columns)
        assert screen.startswith("✗ key refused")
        assert reason in " ".join(screen.split())
        assert "again every 2 s" in " ".join(screen.split())
        assert "silent for" not in screen
        find(screen, "Learning")


def test_an_aggregator_that_came_back_is_said_to_be_back(run: tuple[SampleRun, Picture]):
    sources = run[0].head(("awaited", "awaited", "live", "live")).sources
    screen = text(replace(run[1], restarted_s=6.0, sources=sources), 100)
    assert "● training, aggregator back for 6 s" in screen
    assert "● 2 live  ◌ 2 awaited" in screen
    assert "silent" not in screen


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_refused_names_are_counted_where_they_do_not_fit(training: Picture, columns: int):
    names = tuple(f"Loss/refused_{i}" for i in range(30))
    row = text(replace(training, refused=names, refused_more=7), columns).splitlines()[3]
    assert row.startswith("! refused")
    assert len(row) <= columns - FRAME_CELLS
    shown = row.count("Loss/")
    assert (f"and {37 - shown} more" if shown else "37 names"[: columns - FRAME_CELLS - 12]) in row
    assert "! refused" not in text(training, columns)


def test_refusals_leave_the_events_their_lines(training: Picture):
    events = [Note("status", f"step {i}", 1.0) for i in range(4)]
    refusals = [Note("warning", f"tag_{i}: no number", 0.5, refused=True) for i in range(20)]
    screen = text(replace(training, notes=(*events, *refusals)), 100)
    first = find(screen, "Events")[0] + 1
    rows = screen.splitlines()[first:]
    assert ["refused" in row for row in rows] == [True, True, False, False, False]
    assert "step 3 (1.0 s ago)" in screen.splitlines()[2]


def test_events_say_what_happened_once(training: Picture):
    notes = (
        Note("training_started", "training started", 9.0, None, (0, 1)),
        Note("checkpoint", "checkpoint model_1.pt", 3.0, 100, (0,)),
    )
    ended = replace(training, ended="completed", notes=notes, note_reference="end")
    screen = text(ended, 100)
    rows = [row.split() for row in screen.splitlines()[find(screen, "Events")[0] + 1 :]]
    assert rows == [
        ["3.0", "s", "before", "the", "end", "checkpoint", "model_1.pt", "iter", "100"],
        ["9.0", "s", "before", "the", "end", "training", "started", "ranks", "0,", "1"],
    ]


@pytest.mark.parametrize("columns", [80, 100, 220])
def test_a_tall_terminal_shows_more_of_the_course_and_of_the_events(
    training: Picture, columns: int
):
    notes = tuple(Note("status", f"step {i}", 1.0) for i in range(30))
    full = replace(training, notes=notes)

    def shown(rows: int) -> tuple[int, int, int]:
        screen = [plain(line) for line in layout(full, columns, rows).lines]
        chart = sum(" │" in row or " ┤" in row for row in screen)
        return len(screen), chart, sum("step " in row for row in screen) - 1

    low, tall = shown(24), shown(90)
    assert low[2] == 5
    assert tall[1] > low[1]
    assert tall[2] > low[2]
    assert tall[0] <= 88
    # An event more or less does not move what stands above it.
    full = replace(training, notes=notes[:28])
    assert shown(90)[1] == tall[1]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("events", [0, 2, 30])
def test_an_ended_run_leaves_no_line_of_the_screen_blank(
    training: Picture, columns: int, events: int
):
    notes = tuple(Note("status", f"step {i}", 1.0) for i in range(events))
    ended = replace(training, ended="completed", notes=notes)
    rows = 48
    # A chart of one line is none.
    assert len(layout(ended, columns, rows).lines) >= rows - 3


def test_the_chart_says_what_it_covers(training: Picture):
    for columns in (40, 120):
        assert "─ since iter 1" in text(training, columns)
    rewards = replace(training.rewards, whole_run=True, span=(1, 2500))
    assert "whole run, iter 1 to 2,500" in text(replace(training, rewards=rewards), 80)


def test_policy_state_stands_below_the_losses(training: Picture):
    for columns in (80, 100, 160):
        screen = text(training, columns)
        assert find(screen, "Temperature")[0] < find(screen, "Mean Std")[0]
        # Where each has a course, each has a row.
        apart = find(screen, "Policy Temp")[0] - find(screen, "Mean Std")[0]
        assert apart == (columns == 160)
        assert find(screen, "Mean Std")[1] == 0


def test_states_are_words_and_troubled_sources_come_first(run: tuple[SampleRun, Picture]):
    head = run[0].head(("live", "live", "silent", "lost"))
    shown = replace(run[1], sources=head.sources, ranks_reported=1, missing_ranks=(1,))
    screen = text(shown, 80)
    assert "! n = 1 of 2 ranks, missing: rank 1" in screen
    assert "● 2 live  ○ 1 silent  ✗ 1 lost" in screen
    table = screen.splitlines()[find(screen, "Sources")[0] + 2 :][:4]
    assert [row.split()[1] for row in table] == ["lost", "silent", "live", "live"]
    assert "collector" in table[0]
    assert "41 s" in table[0]


def test_overlapping_phases_raise_an_alert(training: Picture):
    assert training.learner is not None
    over = training.learner._replace(over_accounted=True, accounted_percent=120.0)
    assert "! phases overlap: 120.0 % of wall" in text(replace(training, learner=over), 120)


def test_many_sources_are_counted_when_they_are_not_listed(run: tuple[SampleRun, Picture]):
    sources = run[1].sources * 10
    assert "and 24 more" in text(replace(run[1], sources=sources), 100)


def test_a_trouble_that_cost_nothing_is_named_at_its_source_and_is_no_drop(training: Picture):
    first, *others = training.sources
    met = structs.replace(first, troubles={"key_refused": 1})
    before, screen = (text(replace(training, sources=(one, *others)), 160) for one in (first, met))
    (line,) = (line for line in screen.splitlines() if "key refused" in line)
    assert str(first.pid) in line
    # Its numbers, that of the drops among them, are the same.
    assert line.partition("  key refused")[0] in before
    assert screen.count("key refused") == 1
