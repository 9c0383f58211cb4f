"""Pictures of every view at every size, as they were looked at and approved.

``UPDATE_SNAPSHOTS=1`` writes them anew; look at them before you commit them. The overview's are in
``test_sidecar_app``, those of the ranks wait for their answers in ``test_ranks_pictures``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from approved_pictures import compare
from sample_run import whole_run
from still_sidecar import drive, normalised, screen_text
from textual.events import Key
from textual.pilot import Pilot

from unilab_schema.requests import ConsolePiece
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.events.console_store import PIECE_BYTES
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, ConsoleQuestion

SNAPSHOTS = Path(__file__).parent / "snapshots"
NOTHING_KEPT = Answer(ConsoleQuestion("", 0, False, PIECE_BYTES), ConsolePiece(0, begins=True))
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
            if name == "events":
                app._watching.take(Batch(answers=(NOTHING_KEPT,)), is_paused=False)
                app._paint()
            await pilot.pause()
            await pilot.pause()
            assert "asking" not in screen_text(app)
            made[name] = normalised(app.export_screenshot(title="unilab-metrics"))

    drive(list(batches), look, size=size)
    names = {f"{name}-{size[0]}x{size[1]}": svg for name, svg in made.items()}
    compare(SNAPSHOTS, names)
