"""The display while it stands still, charts of the whole past, and a run that is played again: in the
app, on a made-up run of 5,000 updates and the files that it has left."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_history import LongHistory
from textual.pilot import Pilot

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.subscribe.replay import Replay
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.updates import Update
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.charting.beside import Beside
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.update_source import UpdateSource

COUNT = 5000
PATIENCE_S = 30.0
Steps = Callable[[SidecarApp, Pilot[Any]], Awaitable[None]]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = LongHistory(tmp_path_factory.mktemp("past") / "run")
    made.updates(2000)
    made.event("status", "two thousand done")
    made.updates(COUNT - 2000)
    made.event("status", "all done")
    made.end()
    return made.write()


def drive(source: Callable[[], UpdateSource], steps: Steps) -> None:
    app = SidecarApp(Feed(source, wait_for_bus=False))

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            await steps(app, pilot)

    asyncio.run(run())
    assert not any(thread.name == "sidecar-feed" for thread in threading.enumerate())


def shown(app: SidecarApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def until_so(
    app: SidecarApp, pilot: Pilot[Any], is_so: Callable[[], object], wanted: str
) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"not {wanted} in time\n{shown(app)}"
        await pilot.pause(0.05)


async def until(app: SidecarApp, pilot: Pilot[Any], wanted: str) -> str:
    await until_so(app, pilot, lambda: re.search(wanted, shown(app)), f"on the screen: {wanted!r}")
    return shown(app)


def means_at(run_dir: Path, iteration: int) -> dict[str, float]:
    """The journal's two-second means as they stood at an iteration."""
    with HistoryReader(run_dir / "bus") as reader:
        polled = reader.poll(10_000)
    updates = [(r, r.entry) for r in polled if isinstance(r.entry, Update)]
    at_ns = next(update.sealed_mono_ns for _, update in updates if update.iteration == iteration)
    window = [r for r, u in updates if at_ns - 2 * 10**9 <= u.sealed_mono_ns <= at_ns]
    means = np.mean([r.values() for r in window], axis=0)
    return dict(zip(window[0].tags, means.tolist(), strict=True))


def iteration_in(text: str) -> int:
    found = re.search(r"PAUSED at iteration ([\d,]+)", text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


def test_arrows_show_the_past_as_it_was_and_space_goes_back(run_dir: Path) -> None:
    async def steps(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until(app, pilot, "run ended: completed")
        await pilot.press("space")
        assert iteration_in(shown(app)) == COUNT
        await pilot.press("left")
        text = await until(app, pilot, rf"PAUSED at iteration (?!{COUNT:,})")
        # A second of the run: ten updates, of which the last entries are an event and the end.
        assert COUNT - 12 <= iteration_in(text) < COUNT
        await pilot.press("home")
        text = await until(app, pilot, r"PAUSED at iteration 1 ")
        assert "waiting" not in text
        for _ in range(8):
            await pilot.press("pagedown")
        await until(app, pilot, r"PAUSED at iteration (19|20)\d\d|PAUSED at iteration 2,0\d\d")
        picture = app._picture
        assert picture.iteration is not None
        assert picture.stage == "training"
        expected = means_at(run_dir, picture.iteration)
        got = {tag: reading.value for tag, reading in picture.readings.items()}
        assert got == pytest.approx(expected, rel=1e-12)
        assert f"{expected['Loss/critic']:.4g}"[:5] in shown(app)
        assert "all done" not in shown(app)
        await pilot.press("space")
        await until(app, pilot, "run ended: completed")
        assert "PAUSED" not in shown(app)

    drive(lambda: Subscriber.attach(run_dir), steps)


def test_charts_have_the_whole_past_of_a_tag_that_is_chosen_late(run_dir: Path) -> None:
    async def steps(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until(app, pilot, r"iteration|Iter")
        await pilot.press("2")
        await pilot.press("slash", *"wall", "enter")
        await pilot.press("enter")
        text = await until(app, pilot, "iteration 1 to|iteration 0 to")
        assert "loading" not in await until(app, pilot, "whole run")
        store = app._watching._charts.store
        assert store.tags, text
        for tag in store.tags:
            bins = store.bins(tag)
            assert store.progress(tag) == 1.0
            span = bins.span("iteration")
            assert span is not None
            assert (span.low, span.high) == (1, COUNT)

    drive(lambda: Subscriber.attach(run_dir, after=COUNT - 100), steps)


def test_a_replay_goes_at_any_speed_stands_still_and_goes_on_from_another_place(
    run_dir: Path,
) -> None:
    async def steps(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until(app, pilot, "REPLAY 0.1×")
        await until(app, pilot, "3,?000")
        for _ in range(3):
            await pilot.press("]")
        await until(app, pilot, "REPLAY 1×")
        await pilot.press("space")
        was = iteration_in(await until(app, pilot, "PAUSED at iteration"))
        assert 3000 <= was < 3200
        await pilot.press("pageup")
        gone = iteration_in(await until(app, pilot, r"PAUSED at iteration 2,[78]\d\d"))
        await pilot.press("space")
        await until_so(
            app,
            pilot,
            lambda: gone <= (app._picture.iteration or 0) < gone + 100,
            f"at iteration {gone}",
        )
        for _ in range(9):
            await pilot.press("]")
        await until(app, pilot, "run ended: completed")
        assert f"{COUNT}" in shown(app).replace(",", "")

    drive(lambda: Replay(run_dir, speed=0.1, iteration=3000), steps)


def is_whole(beside: Beside, tags: tuple[str, ...]) -> bool:
    store = beside._charts.store
    return set(tags) <= set(store.tags) and all(store.progress(tag) == 1.0 for tag in tags)


def test_an_earlier_run_of_the_task_is_drawn_beside_one_after_the_other(
    run_dir: Path,
) -> None:
    for name, count in (("early-1", 300), ("early-2", 2500), ("zlater", 5)):
        made = LongHistory(run_dir.parent / name)
        made.updates(count)
        made.write()

    async def steps(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await until(app, pilot, "run ended: completed")
        await pilot.press("2")
        await until(app, pilot, "whole run")
        beside = app._watching._beside
        # Until the feed has named them the key means nothing.
        await until_so(app, pilot, lambda: beside._names, "told of earlier runs")
        for label, count in (("1 of 2: early-2", 2500), ("2 of 2: early-1", 300)):
            await pilot.press("c")
            await until(app, pilot, re.escape(label))
            tags = app._state.chart.tags
            assert tags
            await until_so(app, pilot, partial(is_whole, beside, tags), f"whole: {label}")
            store = beside._charts.store
            spans = [store.bins(tag).span("iteration") for tag in tags]
            assert all(span is not None and (span.low, span.high) == (1, count) for span in spans)
        await pilot.press("c")
        assert "early" not in shown(app)

    drive(lambda: Subscriber.attach(run_dir), steps)
