"""Publishers that close with something undelivered, and who looks after their aggregator."""

from __future__ import annotations

import time

import pytest

from unilab_metrics.publish.publisher import Publisher


class Keeper:
    """In place of the supervisor of an aggregator."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.calls: list[tuple[float, bool]] = []

    def __call__(self, *, hurry: bool, heard: object = None) -> str:
        self.calls.append((time.monotonic(), hurry))
        return self.trouble


def warning_of_close(publisher: Publisher, timeout_s: float = 0.0) -> str:
    with pytest.warns(RuntimeWarning) as caught:
        results = [publisher.close(timeout_s) for _ in range(2)]
    (only,) = caught
    assert results == [False, False]
    assert only.filename == __file__
    assert publisher.errors[-1] == str(only.message)
    return str(only.message)
