"""The end of a run on a disk that has no room for its summary."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unilab_metrics.aggregate import closing as module
from unilab_metrics.aggregate.closing import Closing
from unilab_metrics.aggregate.endurance import Endurance
from unilab_metrics.errors import ExitCode


def closing(monkeypatch: pytest.MonkeyPatch, *, fails: int) -> tuple[Closing, list[str]]:
    """The end of a run that is complete but for its summary, which fails so often."""
    happened: list[str] = []
    monkeypatch.setattr(module, "outcome_of", lambda *_: None)
    data = SimpleNamespace(ended=1, sources=[], attempt=1)
    journal = SimpleNamespace(has_uncommitted=False, committed_update=0)
    core: Any = SimpleNamespace(
        state=SimpleNamespace(data=data),
        journal=journal,
        problem="",
        untold=(),
        durable_update=0,
        seal_all=list,
    )

    def write_summary(_: object) -> None:
        happened.append("summary")
        if happened.count("summary") <= fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ingest: Any = SimpleNamespace(
        peers={}, tell_left_out=len, say_closed=lambda: happened.append("closed")
    )
    others: Any = SimpleNamespace(
        announce=lambda **_: None,
        remove_finished=list,
        updates=dict,
        is_complete=lambda *_, **__: True,
        troubles=lambda _last: [],
    )
    made = Closing(
        core,
        run_dir=Path("run"),
        drain_s=1.0,
        ingest=ingest,
        liveness=others,
        announcer=others,
        writers=others,
        endurance=Endurance(),
        unheard=list,
        turn=lambda: happened.append("turn"),
        write_summary=write_summary,
    )
    return made, happened


def test_the_summary_is_tried_until_there_is_room_and_then_the_run_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, happened = closing(monkeypatch, fails=2)
    assert made.run() == ExitCode.OK
    assert happened == ["summary", "turn", "summary", "turn", "summary", "closed"]


def test_a_disk_that_stays_full_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FULL_DISK_NS", 50_000_000)
    made, happened = closing(monkeypatch, fails=10**9)
    assert made.run() == ExitCode.UNEXPECTED
    assert happened[-1] == "closed"
