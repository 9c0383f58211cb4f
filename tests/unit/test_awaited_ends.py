"""What the aggregator tells who closes and waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unilab_metrics.aggregate.leaving.awaited import awaited
from unilab_schema.identity import SourceKey


def data(*statuses: str) -> Any:
    sources = [
        SimpleNamespace(status=status, identity=SimpleNamespace(key=SourceKey(rank, "learner")))
        for rank, status in enumerate(statuses)
    ]
    return SimpleNamespace(sources=sources)


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        (("finished", "live"), "learner of rank 1 has not ended"),
        (("live", "lost", "live"), "learner of rank 0, learner of rank 2 have not ended"),
        (
            ("live",) * 6,
            "learner of rank 0, learner of rank 1, learner of rank 2 and 3 more have not ended",
        ),
        (("finished", "lost"), "tensorboard is at update 3 of 4"),
    ],
)
def test_live_processes_come_before_backends(statuses: tuple[str, ...], text: str) -> None:
    assert awaited(data(*statuses), ["tensorboard is at update 3 of 4"]) == text


def test_nothing_is_awaited_when_all_is_done() -> None:
    assert awaited(data("finished"), []) == ""
