"""Keys that come faster than the screen can be painted: pasted, held down, or line noise."""

from __future__ import annotations

from typing import Any

import pytest
from sample_run import whole_run
from still_sidecar import StillFeed, drive, screen_text, until_shown
from textual.events import Key
from textual.pilot import Pilot

from unilab_metrics.errors import ExitCode
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, StopQuestion
from unilab_sidecar.looking import for_a_while, showing


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return whole_run(30)[1]


def counted_screens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    usual = showing.screen

    def screen(*arguments: Any) -> showing.Screen:
        made.append(1)
        return usual(*arguments)

    monkeypatch.setattr(showing, "screen", screen)
    return made


def typed(app: SidecarApp, keys: str) -> None:
    for key in keys:
        app.post_message(Key(key, key))


def test_keys_that_wait_make_one_picture(batches: list[Batch], monkeypatch: pytest.MonkeyPatch):
    made = counted_screens(monkeypatch)

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        before = len(made)
        typed(app, "12345" * 40 + "?")
        await pilot.pause()
        await pilot.pause()
        assert 1 <= len(made) - before <= 5
        assert "Space" in screen_text(app)

    drive(batches, look)


def test_ctrl_c_behind_many_keys_does_not_wait_for_pictures(
    batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    made = counted_screens(monkeypatch)
    counts: list[int] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        counts.append(len(made))
        typed(app, "12345" * 40)
        app.post_message(Key("ctrl+c", "\x03"))
        await pilot.pause()

    app = drive(batches, look)
    assert app.return_code == ExitCode.INTERRUPTED
    assert len(made) - counts[0] <= 5


def test_no_training_is_stopped_by_text_that_happens_to_begin_like_it(
    batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    stopped: list[str] = []

    def stop() -> str:
        stopped.append("")
        return "asked to stop"

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        monkeypatch.setattr(for_a_while, "READ_S", 1000.0)
        typed(app, "Ky")
        await until_shown(app, pilot, "not stopped: press K")
        await pilot.press("K")
        await until_shown(app, pilot, "Stop the training")
        await pilot.press("y")
        await until_shown(app, pilot, "not stopped: press K")
        assert not stopped
        monkeypatch.setattr(for_a_while, "READ_S", 0.0)
        await pilot.press("K")
        await until_shown(app, pilot, "Stop the training")
        await pilot.press("y")
        await pilot.pause()
        # The thread of the feed looks for the training's processes, not that of the screen.
        assert not stopped
        feed = app._feed
        assert isinstance(feed, StillFeed)
        (question,) = [one for one in feed.asked if isinstance(one, StopQuestion)]
        feed.batches.append(Batch(answers=(Answer(question, question.put(None)),)))
        await until_shown(app, pilot, "asked to stop")

    drive(batches, look, stop=StopQuestion(stop))
    assert len(stopped) == 1


def test_each_view_keeps_its_place_when_keys_come_at_once(batches: list[Batch]):
    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        sheet = app._sheet
        sheet.scroll_to(y=3, animate=False)
        await pilot.pause()
        assert sheet.scroll_offset.y == 3
        typed(app, "45")
        await pilot.pause()
        await pilot.pause()
        typed(app, "31")
        await pilot.pause()
        await pilot.pause()
        assert sheet.scroll_offset.y == 3

    drive(batches, look, size=(70, 16))
