"""What is true of a run at this moment, fact by fact."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from unilab_metrics.subscribe.ssh.outage import Outage
from unilab_schema.control import SourceStatus
from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.standing import (
    has_contact,
    how_ended,
    is_training,
    last_words,
    state,
    words,
)

LIVE = Picture("training", connected=True)


def source(state: str, role: str = LEARNER, age_s: float = 7.0, rank: int = 0) -> SourceStatus:
    return SourceStatus(SourceKey(rank, role), 1, "h", state, age_s, None, 5, 0)


def of(*sources: SourceStatus, **changed: object) -> Picture:
    return replace(LIVE, sources=sources, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(("silent_s", "is_heard"), [(2.0, True), (2.1, False)])
def test_an_aggregator_is_silent_after_two_seconds(silent_s: float, is_heard: bool) -> None:
    assert has_contact(replace(LIVE, silent_s=silent_s)) is is_heard
    assert has_contact(replace(LIVE, silent_s=silent_s, ended="completed")), "nobody expects any"


@pytest.mark.parametrize(
    ("ended", "said", "style"),
    [
        ("completed", "✓ run ended: completed", "good"),
        ("collection_completed", "✓ run ended: collection_completed", "good"),
        ("failed", "✗ run ended: failed", "bad"),
        ("collector_died", "✗ run ended: collector_died", "bad"),
        ("stopped", "■ run ended: stopped", "warn"),
    ],
)
def test_a_run_that_has_ended_says_how(ended: str, said: str, style: str) -> None:
    found = state(replace(LIVE, ended=ended))
    assert (found.text, found.style) == (said, style)


def test_by_what_it_was_stopped_is_said_once() -> None:
    assert how_ended(replace(LIVE, ended="stopped", ended_text="stopped by SIGTERM")) == (
        "stopped (SIGTERM)"
    )
    assert how_ended(replace(LIVE, ended="stopped")) == "stopped"


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ((source("silent", age_s=9.0), source("silent", age_s=7.0, rank=1)),
         "no learner heard for 7.0 s"),
        ((source("lost"), source("finished", rank=1)), "no learner left"),
        ((source("failed"), source("finished", rank=1)), "learners ended, not all well"),
        ((source("finished"),), "learners finished"),
        ((source("finished"), source("live", COLLECTOR)),
         "learners finished, 1 process lives on"),
        ((source("finished"), source("live", COLLECTOR), source("awaited", COLLECTOR, rank=1)),
         "learners finished, 2 processes live on"),
    ],
)  # fmt: skip
def test_where_no_learner_is_at_work_nobody_trains(
    sources: tuple[SourceStatus, ...], said: str
) -> None:
    assert words(of(*sources)) == said
    assert not is_training(of(*sources))


@pytest.mark.parametrize("at_work", ["live", "awaited"])
def test_one_learner_at_work_is_a_training(at_work: str) -> None:
    picture = of(source("lost"), source(at_work, rank=1))
    assert words(picture) == "training"
    assert is_training(picture)
    assert not is_training(replace(picture, ended="failed"))
    assert not is_training(replace(picture, gone=()))


def test_what_keeps_from_hearing_a_machine_is_named_with_it() -> None:
    for is_open, next_s, said in (
        (True, None, "no answer from box for 5.0 s"),
        (False, 3.0, "no connection to box for 5.0 s, next try in 3 s"),
        (False, None, "no connection to box for 5.0 s, trying again"),
    ):
        outage = Outage("box", is_open=is_open, next_s=next_s)
        assert words(replace(LIVE, silent_s=5.0, outage=outage)) == said
    never = replace(LIVE, silent_s=math.inf)
    assert words(never) == "no aggregator"


def test_the_last_words_are_true_of_the_run() -> None:
    assert last_words(of(source("live"))) == "The training goes on."
    assert last_words(of(source("finished"))).startswith("It has only looked on")
    assert last_words(of(source("live"), silent_s=9.0)).startswith("It has only looked on")
    assert last_words(of(source("live"), gone=())).startswith("Nobody is at work")
    assert last_words(of(source("live"), ended="failed")) == "The run has ended: failed."


def test_a_run_without_updates_that_nobody_announces_yet_waits_for_its_training() -> None:
    opened = Picture("waiting", silent_s=math.inf)
    assert words(opened) == "waiting for the training to begin, no aggregator yet"
    assert words(replace(opened, silent_s=7.0)) == "aggregator silent for 7.0 s"
