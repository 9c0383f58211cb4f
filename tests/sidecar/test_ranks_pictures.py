"""Pictures of the ranks at every size, as they were looked at and approved.

``UPDATE_SNAPSHOTS=1`` writes them anew; look at them before you commit them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from approved_pictures import compare
from msgspec.structs import replace
from rank_answers import ITERATION, run_of
from sample_run import RUN, whole_run
from still_sidecar import drive, normalised
from textual.events import Key
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, RanksQuestion

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    of_64 = replace(RUN, max_iterations=100_000, world_size=64)
    run, batches = whole_run(300, info=of_64, after=ITERATION - 300)
    answer = Answer(RanksQuestion(), run_of(64, lost=7, silent=9))
    return [*batches, run.batch(answers=(answer,))]


@pytest.mark.parametrize("size", [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)])
def test_the_ranks_look_as_they_were_approved(batches: list[Batch], size: tuple[int, int]):
    made: list[str] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        app._press(Key("3", "3"))
        await pilot.pause(0)
        made.append(normalised(app.export_screenshot(title="unilab-metrics")))

    drive(list(batches), look, size=size)
    compare(SNAPSHOTS, {f"ranks-{size[0]}x{size[1]}": made[0]})
