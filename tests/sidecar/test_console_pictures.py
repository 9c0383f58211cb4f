"""Pictures of the console beside the events at every size, as they were looked at and approved;
``UPDATE_SNAPSHOTS=1`` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from approved_pictures import compare
from sample_run import whole_run
from still_sidecar import drive, normalised
from textual.events import Key
from textual.pilot import Pilot

from unilab_schema.requests import ConsolePiece
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.events.console_store import PIECE_BYTES
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, ConsoleQuestion

SNAPSHOTS = Path(__file__).parent / "snapshots"
OUTPUT = (
    b"loading assets/go2/scene.xml\n"
    b"\x1b[33mwarning:\x1b[0m 4096 environments need 11.2 GiB, 9.8 GiB are free; using 3584\n"
    + "任务 go2_joystick 已加载 🐕\n".encode()
    + b"".join(
        b"[%02d:%02d] epoch %d  actor %.4f  critic %.4f  alpha %.3f  grad %.2f  lr 3.0e-04  buffer"
        b" 512000/1000000\n" % (18 + n // 60, n % 60, n, 0.5 - n / 200, 2.0 / (n + 1), 0.2, 1.5)
        for n in range(60)
    )
    + b"saved checkpoints/model_60.pt\n"
    + b"".join(b"\reval %3d%%|%s|" % (p, b"#" * (p // 5)) for p in range(0, 66, 5))
)


HAPPENED = (
    ("checkpoint", "checkpoint checkpoints/model_250.pt"),
    ("warning", "warning: environment 17 was reset after 3 invalid observations"),
    ("status", "evaluation over 16 episodes: mean return 118.4, 15 of 16 reached the goal"),
)


@pytest.mark.parametrize("size", [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)])
def test_events_and_console_look_as_they_were_approved(size: tuple[int, int]) -> None:
    question = ConsoleQuestion("", 0, False, PIECE_BYTES)
    piece = ConsolePiece(0, "a", 0, OUTPUT, begins=True)
    run, batches = whole_run(300)
    batches.append(run.batch(*(run.event(kind, told) for kind, told in HAPPENED)))
    made: dict[str, str] = {}

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        app._press(Key("4", "4"))
        app._watching.take(Batch(answers=(Answer(question, piece),)), is_paused=False)
        for name, keys in {"console": (), "console-back": ("enter", "pageup", "up")}.items():
            for one in keys:
                app._press(Key(one, None))
            app._paint()
            await pilot.pause()
            await pilot.pause()
            made[name] = normalised(app.export_screenshot(title="unilab-metrics"))

    drive(list(batches), look, size=size)
    names = {f"{name}-{size[0]}x{size[1]}": svg for name, svg in made.items()}
    compare(SNAPSHOTS, names)
