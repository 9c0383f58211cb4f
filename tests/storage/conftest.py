"""History files to write, readers and spools that are closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from history_files import Segments
from made_spools import MakeSpool, identity

from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
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


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSpool]:
    made: list[Spool] = []

    def make(**limits: int) -> Spool:
        spool = Spool(tmp_path / f"spool{len(made)}", identity(), Losses(), **limits)
        made.append(spool)
        return spool

    yield make
    for spool in made:
        spool.close(remove=False)
