"""What a screen says of a machine that cannot be heard, and when it is tried again."""

from __future__ import annotations

import math
from dataclasses import replace

from sample_run import whole_run
from screen_text import text

from unilab_metrics.subscribe.ssh.outage import Outage
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.printed.plain import format_line
from unilab_sidecar.progress.standing import state
from unilab_sidecar.series import Series


def test_a_lost_connection_is_named_with_its_age_and_the_next_try(training: Picture):
    for outage, words in (
        (Outage("me@box", 7.4), "○ no connection to me@box for 14 s, next try in 7 s"),
        (Outage("me@box"), "○ no connection to me@box for 14 s, trying again"),
        (Outage("me@box", is_open=True), "○ no answer from me@box for 14 s"),
    ):
        lost = replace(training, silent_s=14.0, outage=outage)
        assert words in text(lost, 80)
        assert words[2:] in format_line(lost)
        assert "no connection" not in text(replace(lost, silent_s=0.5), 80)
        assert "run ended" in text(replace(lost, ended="completed", stage="ended"), 80)


def test_a_host_of_any_length_is_clean_and_leaves_room_for_the_next_try(training: Picture):
    outage = Outage("\x1b[31m" + "主机" * 40, 30.0)
    lost = replace(training, silent_s=140.0, outage=outage)
    shown = text(lost, 80)
    assert "next try in 30 s" in shown
    assert "\x1b" not in shown


def test_before_the_first_word_the_connection_is_said_too():
    shown = text(Picture(silent_s=math.inf, outage=Outage("box", 3.0)), 80)
    assert "no connection to box, next try in 3 s" in shown
    assert "no connection to box" in text(Picture(outage=Outage("box", 3.0)), 80)


def test_a_refusal_over_ssh_says_when_it_is_tried_again(training: Picture):
    refused = replace(training, silent_s=7.0, refusal="box: asks", outage=Outage("box", 21.0))
    shown = " ".join(text(refused, 100).split())
    assert "✗ box asks for a password, code or key" in shown
    assert "tried again in 21 s" in shown
    assert "every 2 s" not in shown
    again = replace(refused, outage=Outage("box"))
    assert "box: asks; trying again" in " ".join(text(again, 100).split())


def test_the_newest_batch_counts():
    series = Series()
    series.add(Batch(outage=Outage("box", 3.0)))
    assert series.picture().outage == Outage("box", 3.0)
    series.add(Batch(connected=True))
    assert series.picture().outage is None


def test_a_connection_that_stands_again_is_the_same_loss_until_the_aggregator_speaks():
    run, batches = whole_run(20)
    series = Series()
    for batch in batches:
        series.add(batch)

    def said(age_s: float, outage: Outage | None = None) -> str:
        series.add(replace(run.batch(), head=None, head_age_s=age_s, outage=outage))
        return state(series.picture()).text

    assert said(3.4, Outage("box", 2.0)) == "○ no connection to box for 3.4 s, next try in 2 s"
    assert said(4.9) == "○ no connection to box for 4.9 s, trying again"
    assert said(8.3) == "○ no connection to box for 8.3 s, trying again"
    assert said(8.5) == "○ aggregator silent for 8.5 s"
    assert said(9.0, Outage("box", is_open=True)) == "○ no answer from box for 9.0 s"
    assert said(9.5) == "○ no answer from box for 9.5 s"
    assert said(0.5) == "● training"
    assert said(2.5) == "○ aggregator silent for 2.5 s", "another loss"
