"""Pictures of a run's states and of the themes, as they were looked at and approved.

``UPDATE_SNAPSHOTS=1`` writes them anew; look at them before you commit them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from approved_pictures import compare
from sample_run import SampleRun, whole_run
from still_sidecar import drive, normalised
from textual.events import Key
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 40))


def warming_up() -> list[Batch]:
    run = SampleRun()
    filled = run.event("status", "warm-up: 2048 of 5120 replay rows", fill=0.4)
    return [run.batch(run.open_attempt()), run.batch(filled)]


def completed() -> list[Batch]:
    run, batches = whole_run(300)
    return [*batches, Batch((run.end(),), run.head(("finished",) * 4))]


def failed() -> list[Batch]:
    run, batches = whole_run(300)
    states = ("finished", "finished", "lost", "lost")
    return [*batches, Batch((run.end("failed"),), run.head(states))]


def with_nan() -> list[Batch]:
    run, batches = whole_run(260)
    broken = {"Loss/critic": float("nan"), "Loss/actor": float("inf")}
    return [*batches, run.batch(*(run.update(broken) for _ in range(40)))]


def with_odd_tags() -> list[Batch]:
    run, batches = whole_run(260)
    odd = {
        "Reach/[bold]奖励[/]": 1.25,
        "自定义/距离 🙂": 0.5,
        "Custom/a_name_that_is_longer_than_any_column_has_room_for": 123_456.789,
        "Custom/red\x1b[31m": 2.0,
    }
    return [*batches, run.batch(*(run.update(odd) for _ in range(40)))]


OTHER_METRICS_ALONE = ("tab",) * 4 + ("enter",)
"""Where a small screen has them only further down."""
STATES: dict[str, Callable[[], list[Batch]]] = {
    "warm-up": warming_up,
    "completed": completed,
    "failed": failed,
    "nan": with_nan,
    "odd-tags": with_odd_tags,
}
THEMES: dict[str, dict[str, Any]] = {
    "light": {"theme": "light"},
    "colour-blind": {"theme": "colour-blind"},
    "ansi": {"theme": "ansi"},
    "ascii": {"unicode": False, "environ": {"NO_COLOR": "1", "TERM": "xterm-256color"}},
}


def _picture(
    batches: list[Batch], size: tuple[int, int], keys: Sequence[str] = "", **more: Any
) -> str:
    made: list[str] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        for key in keys:
            app._press(Key(key, key))
        await pilot.pause()
        await pilot.pause()
        made.append(normalised(app.export_screenshot(title="unilab-metrics")))

    drive(batches, look, size=size, **more)
    return made[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_each_state_of_a_run_looks_as_it_was_approved(state: str, size: tuple[int, int]):
    keys = OTHER_METRICS_ALONE if (state, size) == ("odd-tags", (80, 24)) else ()
    made = {f"{state}-{size[0]}x{size[1]}": _picture(STATES[state](), size, keys)}
    compare(SNAPSHOTS, made)


@pytest.mark.parametrize("theme", THEMES)
def test_each_theme_looks_as_it_was_approved(theme: str):
    batches = failed()
    made = {
        f"{theme}-overview-120x40": _picture(list(batches), (120, 40), **THEMES[theme]),
        f"{theme}-charts-80x24": _picture(list(batches), (80, 24), "2o", **THEMES[theme]),
    }
    compare(SNAPSHOTS, made)
