"""Pictures of every view at every size, as they were looked at and approved.

``UPDATE_SNAPSHOTS=1`` writes them anew; look at them before you commit them. The overview's are in
``test_sidecar_app``, those of the ranks wait for their answers in ``test_ranks_view``.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sample_run import whole_run
from still_sidecar import drive, normalised, words
from textual.events import Key
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.batch import Batch

SNAPSHOTS = Path(__file__).parent / "snapshots"
VIEWS = {"charts": "2", "events": "4", "bus": "5", "help": "?", "commands": ":"}


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return whole_run(300)[1]


@pytest.mark.parametrize("size", [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)])
def test_each_view_looks_as_it_was_approved(batches: list[Batch], size: tuple[int, int]):
    made: dict[str, str] = {}

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        for name, key in VIEWS.items():
            for one in ("escape", "1", key):
                app._press(Key(one, one if len(one) == 1 else None))
            await pilot.pause()
            await pilot.pause()
            made[name] = normalised(app.export_screenshot(title="unilab-metrics"))

    drive(list(batches), look, size=size)
    made_with = f"<!-- textual {version('textual')}, rich {version('rich')} -->\n"
    for name, svg in made.items():
        path = SNAPSHOTS / f"{name}-{size[0]}x{size[1]}.svg"
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.write_text(made_with + svg, "utf-8")
        approved = path.read_text("utf-8")
        assert words(svg) == words(approved), name
        if approved.startswith(made_with):
            assert made_with + svg == approved, name
