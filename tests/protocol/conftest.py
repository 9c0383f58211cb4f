"""Fixtures of the tests at an aggregator's doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from doors import Connect, Doors, Open

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import sockets
from unilab_metrics.transport.keys import CurveClient


@pytest.fixture
def bus_dir(tmp_path: Path) -> Path:
    return private_directory(tmp_path / "run" / "bus")


@pytest.fixture
def open_doors(short_path: Path, bus_dir: Path) -> Iterator[Open]:
    opened: list[Doors] = []

    def open_doors(**options: Any) -> Doors:
        opened.append(Doors(short_path, bus_dir, **options))
        return opened[-1]

    yield open_doors
    for doors in opened:
        doors.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[tuple[Any, zmq.Socket[bytes]]] = []

    def connect(make: Any, endpoint: str, curve: CurveClient | None = None):
        context = sockets.context()
        one = make(context, endpoint, curve)
        made.append((context, one))
        return one

    yield connect
    for context, one in made:
        sockets.terminate(context, [one])
