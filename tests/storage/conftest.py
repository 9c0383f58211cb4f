"""History files to write, and readers that are closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from history_files import Segments

from unilab_metrics.subscribe.history import HistoryReader


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path)


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Callable[..., HistoryReader]]:
    readers: list[HistoryReader] = []

    def open_reader(after: int = 0) -> HistoryReader:
        readers.append(HistoryReader(tmp_path, after))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.close()
