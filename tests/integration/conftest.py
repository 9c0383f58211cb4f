"""Publishers that are closed after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spooled import Make, spooled_publisher

from unilab_metrics.publish.publisher import Publisher


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Takes the options of ``spooled_publisher``."""
    made: list[Publisher] = []

    def make(**options: Any) -> Publisher:
        publisher = spooled_publisher(tmp_path, **options)
        made.append(publisher)
        return publisher

    yield make
    for publisher in made:
        publisher.close(0)
