"""What a screen that closes with its run says, and what a key does then."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sample_run import whole_run
from still_sidecar import drive, screen_text, until_shown
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.command_line import command_line
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.screen_program import keeping


@pytest.fixture
def ended() -> list[Batch]:
    run, batches = whole_run(20)
    return [*batches, run.batch(run.end())]


def test_a_screen_that_closes_counts_down_at_its_edge_and_a_key_keeps_it(
    ended: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unilab_sidecar.looking.for_a_while.LINGER_S", 3600.0)
    told: list[int] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until_shown(app, pilot, "closes in 3")
        assert "s · any key stays" in screen_text(app)
        await pilot.press("2")
        await until_shown(app, pilot, "Charts")
        assert "closes in" not in screen_text(app)
        assert told == [1]
        monkeypatch.setattr("unilab_sidecar.looking.for_a_while.LINGER_S", 0.0)
        app.tick()
        assert not app._exit
        await pilot.press("q")
        assert app._exit

    drive(ended, look, exits=True, keep=lambda: told.append(1))


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130)])
def test_a_key_that_closes_keeps_nothing(ended: list[Batch], key: str, code: int) -> None:
    told: list[int] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until_shown(app, pilot, "closes in")
        await pilot.press(key)
        assert app._exit

    app = drive(ended, look, exits=True, keep=lambda: told.append(1))
    assert (told, app.return_code or 0) == ([], code)


def test_a_key_without_a_meaning_keeps_it_too(ended: list[Batch]) -> None:
    told: list[int] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until_shown(app, pilot, "closes in")
        await pilot.press("f5")
        await until_shown(app, pilot, "q close")
        assert told == [1]

    drive(ended, look, exits=True, keep=lambda: told.append(1))


def test_a_screen_of_which_the_training_waits_for_the_end_says_when_it_closes(
    ended: list[Batch],
) -> None:
    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until_shown(app, pilot, "closes with the training")
        await pilot.press("2")
        assert "closes with the training" in screen_text(app)

    drive(ended, look, exits=True)


def test_a_theme_that_was_chosen_by_its_key_is_named(ended: list[Batch]) -> None:
    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        for theme in ("light", "colour-blind", "ansi", "dark"):
            await pilot.press("t")
            await until_shown(app, pilot, f"theme: {theme}")

    drive(ended[:-1], look, theme="dark")


def test_a_launcher_is_told_by_a_byte_and_one_that_does_not_listen_cannot_be() -> None:
    parse = command_line().parse_args
    assert keeping(parse(["RUN", "--launched"])) is None
    alone = keeping(parse(["RUN", "--exit-with-run"]))
    assert alone is not None
    alone()
    heard, told = os.pipe()
    keep = keeping(parse(["RUN", "--launched", "--keep", str(told)]))
    assert keep is not None
    keep()
    assert os.read(heard, 10) == b"."
    os.close(heard)
    keep()
    os.close(told)
