"""The first picture of a run, or of another place of it, does not wait for the clock; all others do."""

from __future__ import annotations

from typing import Any

import pytest
from sample_run import whole_run
from still_sidecar import StillFeed, drive, screen_text, until_shown
from textual.pilot import Pilot

from unilab_sidecar import app as app_module
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.looking.first_picture import JOIN_S, LOOK_S, SELDOM_S, FirstPicture


def test_the_wait_for_a_training_is_a_picture_and_its_first_data_another() -> None:
    first = FirstPicture()
    stages = ("connecting", "loading", "waiting", "waiting", "training", "training", "ended")
    assert [first.is_there(stage) for stage in stages] == [0, 0, 1, 0, 1, 0, 0]


def test_it_is_looked_for_often_at_first_and_not_at_all_once_it_is_there() -> None:
    first = FirstPicture()
    first.is_there("waiting")
    assert first.is_awaited
    assert first.look_in_s(100.0) == LOOK_S
    assert first.look_in_s(100.0 + JOIN_S / 2) == LOOK_S
    assert first.look_in_s(100.0 + JOIN_S) == SELDOM_S
    first.is_there("training")
    assert not first.is_awaited
    assert first.look_in_s(100.0) is None


def test_of_another_place_the_first_picture_is_the_one_that_comes_from_there() -> None:
    first = FirstPicture()
    first.is_there("training")
    assert first.goes_to(None) is None
    assert first.goes_to(5) == LOOK_S
    assert not first.is_there("training")
    assert first.look_in_s(100.0) == LOOK_S
    first.begins_anew()
    assert first.is_there("training")
    assert not first.is_there("training")


def test_who_was_there_already_waits_no_longer_than_a_while() -> None:
    first = FirstPicture()
    first.is_there("training")
    first.goes_to(5)
    assert first.look_in_s(100.0) == LOOK_S
    assert first.look_in_s(100.0 + JOIN_S) is None
    assert not first.is_awaited


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages of the pictures that are drawn; the clock never comes to its next beat."""
    monkeypatch.setattr(app_module, "REPAINT_S", 3600.0)
    stages: list[str] = []
    paint = SidecarApp._paint

    def count(app: SidecarApp) -> None:
        stages.append(app._watching.newest.stage)
        paint(app)

    monkeypatch.setattr(SidecarApp, "_paint", count)
    return stages


async def _until_taken(feed: StillFeed, pilot: Pilot[Any]) -> None:
    for _ in range(300):
        if not feed.batches:
            break
        await pilot.pause(0.01)
    assert not feed.batches, "nobody looks"
    await pilot.pause(2 * LOOK_S)


def test_data_is_drawn_as_soon_as_it_is_there_and_once(drawn: list[str]) -> None:
    batches = whole_run(300)[1]
    opened, more = batches[0], batches[1:]
    behind = [Batch(records=one.records, head=one.head, behind=True) for one in more[:3]]

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        feed = app._feed
        assert isinstance(feed, StillFeed)
        before = len(drawn)
        for one in (opened, *behind):
            feed.batches = [one]
            await _until_taken(feed, pilot)
        begun = drawn[before:]
        assert set(begun) <= {"waiting"}
        feed.batches = more[3:]
        await until_shown(app, pilot, "Losses")
        assert drawn[before + len(begun) :] == ["training"]
        feed.batches = [Batch(records=more[-1].records, head=more[-1].head, connected=True)]
        await pilot.pause(5 * LOOK_S)
        assert feed.batches, "the next one is of the next beat"
        assert drawn.count("training") == 1

    drive([], look)


def test_a_jump_of_a_replay_is_drawn_when_the_run_goes_on_from_there(drawn: list[str]) -> None:
    batches = whole_run(300)[1]

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        feed = app._feed
        assert isinstance(feed, StillFeed)
        assert "Losses" in screen_text(app)
        app._look_in(app._first_picture.goes_to(7))
        before = len(drawn)
        feed.batches = [Batch(head=batches[-1].head, connected=True)]
        await _until_taken(feed, pilot)
        assert len(drawn) == before
        restarted = Batch(
            records=batches[-1].records, head=batches[-1].head, connected=True, restarted=True
        )
        feed.batches = [restarted]
        await _until_taken(feed, pilot)
        assert len(drawn) == before + 1

    drive(batches, look)
