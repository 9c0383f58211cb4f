"""Pictures of a run with open alerts, as they were looked at and approved.

``UPDATE_SNAPSHOTS=1`` writes them anew; look at them before you commit them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from approved_pictures import compare
from sample_run import START_UNIX_NS, WALL_S, SampleRun, whole_run
from still_sidecar import drive, normalised, screen_text
from textual.events import Key
from textual.pilot import Pilot

from unilab_schema.alerts import ALERT, ALERT_OVER, AlertStatus
from unilab_schema.frames import EventFrame, Scalar
from unilab_schema.requests import ConsolePiece
from unilab_schema.updates import EventUpdate
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.events.console_store import PIECE_BYTES
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, ConsoleQuestion

SNAPSHOTS = Path(__file__).parent / "snapshots"
NOTHING_KEPT = Answer(ConsoleQuestion("", 0, False, PIECE_BYTES), ConsolePiece(0, begins=True))
RULE = "Loss/critic > 3 for 30 s"
NAN = "NaN in Loss/actor and 2 more tags at iteration 290, rank 1 (1 of 2 ranks)"
HIGH = f"Loss/critic = 3.41 at iteration 262 ({RULE})"
FELL = "reward collapse: Train/mean_reward fell from 41.2 to 11.8"


class AlertingRun:
    """The sample run with alerts of the aggregator's own."""

    def __init__(self) -> None:
        self._run, self.batches = whole_run(300)
        self._open: dict[int, AlertStatus] = {}
        self.raise_(FELL, 210, rule="reward_collapse", subject="Train/mean_reward", severity="warn")
        self.end("Train/mean_reward is back at 37.9", 241)
        self.raise_(HIGH, 262, rule="rule", subject="Loss/critic", severity="warn")
        self.raise_(NAN, 290, rule="nonfinite", subject="Loss/actor", severity="bad")
        updates = [self._run.update() for _ in range(4)]
        head = msgspec.structs.replace(
            self._run.head(), alerts=tuple(self._open.values()), alerts_open=len(self._open)
        )
        self.batches.append(replace(self._run.batch(*updates), head=head))

    def raise_(self, text: str, iteration: int, **facts: Scalar) -> None:
        record = self._event(ALERT, text, iteration, facts)
        told = (str(facts[name]) for name in ("rule", "subject", "severity"))
        rule, subject, severity = told
        self._open[record] = AlertStatus(record, rule, subject, text, severity, iteration, 0)

    def end(self, text: str, iteration: int) -> None:
        alert, known = self._open.popitem()
        self._event(ALERT_OVER, text, iteration, {"alert": alert, "severity": known.severity})

    def _event(self, kind: str, text: str, iteration: int, facts: dict[str, Scalar]) -> int:
        run: SampleRun = self._run
        made = run.event(kind, text)
        assert isinstance(made.entry, EventUpdate)
        frame: EventFrame = msgspec.structs.replace(
            made.entry.frame,
            iteration=iteration,
            data=facts,
            unix_ns=START_UNIX_NS + round(iteration * WALL_S * 1e9),
        )
        entry = msgspec.structs.replace(made.entry, source=None, frame=frame)
        self.batches.append(run.batch(made._replace(entry=entry)))
        return made.sequence


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return AlertingRun().batches


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_open_alerts_look_as_they_were_approved(batches: list[Batch], size: tuple[int, int]):
    made: dict[str, str] = {}

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        for name, key in {"alert-overview": "1", "alert-events": "4"}.items():
            app._press(Key(key, key))
            if key == "4":
                app._watching.take(Batch(answers=(NOTHING_KEPT,)), is_paused=False)
                app._paint()
            await pilot.pause()
            await pilot.pause()
            for mark, text in (("! ", NAN), ("W ", HIGH)):
                assert mark + text[:60] in screen_text(app)
            made[name] = normalised(app.export_screenshot(title="unilab-metrics"))

    drive(list(batches), look, size=size)
    names = {f"{name}-{size[0]}x{size[1]}": svg for name, svg in made.items()}
    compare(SNAPSHOTS, names)
