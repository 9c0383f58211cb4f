"""The sidecar's app over batches that are there from the start, driven without a terminal."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any

import pytest
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.questions import Question
from unilab_sidecar.terminal.picture_drawing import drawn

PATIENCE_S = 30.0
Steps = Callable[[SidecarApp, Pilot[Any]], Awaitable[None]]


class StillFeed(Feed):
    """Has its batches from the start; nothing changes while the test looks."""

    def __init__(self, batches: list[Batch]) -> None:
        super().__init__(lambda: pytest.fail("nobody attaches"), wait_for_bus=False)
        self.batches = batches
        self.asked: list[Question] = []

    def ask(self, question: Question) -> None:
        """Nobody answers."""
        self.asked.append(question)

    def run(self) -> None:
        """Returns at once."""

    def take(self) -> list[Batch]:
        """Everything, once."""
        batches, self.batches = self.batches, []
        return batches


def drive(
    batches: list[Batch],
    steps: Steps,
    *,
    size: tuple[int, int] = (100, 30),
    exits: bool = False,
    **more: Any,
) -> SidecarApp:
    """An app that has taken the batches, through ``steps`` to its end."""
    app = SidecarApp(StillFeed(batches), exit_with_run=exits, **more)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            app.tick()
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())
    return app


def screen_text(app: SidecarApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def until_shown(app: SidecarApp, pilot: Pilot[Any], words: str) -> None:
    """What comes with a timer, or after a layout."""
    deadline_s = time.monotonic() + PATIENCE_S
    while words not in screen_text(app):
        assert time.monotonic() < deadline_s, f"{words!r} is not on\n{screen_text(app)}"
        await pilot.pause(0.02)


def normalised(svg: str) -> str:
    """As somebody gets it who presses ``s``, without the number of the export."""
    return drawn(re.sub(r"terminal-\d+", "terminal", svg))


def words(svg: str) -> list[str]:
    return [unescape(text).replace("\xa0", " ") for text in re.findall(r">([^<>]+)</text>", svg)]
