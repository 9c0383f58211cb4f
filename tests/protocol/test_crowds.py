"""More connections than there may be: the newest are turned away, who was there stays."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from doors import Doors, wait_for
from raw_peers import open_raw

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import crowd, monitoring, sockets
from unilab_metrics.transport.crowd import Capacity, Crowd, capacity
from unilab_metrics.transport.endpoints import TOO_MANY
from unilab_metrics.transport.monitoring import Happening

IPC = "ipc:///nowhere/1.in"
TCP = "tcp://127.0.0.1:7000"
NOT_OPEN = 1_000_000
"""Numbers from here on are no descriptors of this process."""


@pytest.mark.parametrize(
    ("descriptors", "tcp", "both"),
    [(64, 16, 16), (128, 64, 64), (256, 128, 192), (1024, 512, 768), (65_536, 65_024, 65_280)],
)
def test_connections_leave_descriptors_to_all_else(descriptors: int, tcp: int, both: int) -> None:
    assert capacity(descriptors) == (tcp, both)


def seen(crowded: Crowd, kind: int, number: int, endpoint: str) -> bool:
    return crowded.heed(Happening(kind, NOT_OPEN + number, endpoint))


def test_tcp_has_a_bound_of_its_own_and_ipc_what_is_left_of_all() -> None:
    crowded = Crowd([IPC, TCP], Capacity(2, 4))
    assert [seen(crowded, monitoring.ACCEPTED, n, TCP) for n in range(3)] == [True, True, False]
    assert seen(crowded, monitoring.DISCONNECTED, 2, TCP)
    assert [seen(crowded, monitoring.ACCEPTED, n, IPC) for n in (3, 4, 5)] == [True, True, False]
    assert not seen(crowded, monitoring.ACCEPTED, 6, TCP)


def test_a_number_that_is_used_again_is_told_by_two_monitors_in_any_order() -> None:
    crowded = Crowd([IPC, TCP], Capacity(2, 4))
    assert seen(crowded, monitoring.ACCEPTED, 1, TCP)
    assert seen(crowded, monitoring.ACCEPTED, 1, IPC)
    assert seen(crowded, monitoring.DISCONNECTED, 1, TCP)
    assert len(crowded) == 1
    assert seen(crowded, monitoring.DISCONNECTED, 1, IPC)
    assert len(crowded) == 0


def is_cut(made: socket.socket) -> bool:
    """Whether the other end has hung up, after whatever it said first."""
    made.settimeout(0.02)
    try:
        while made.recv(1024):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_those_beyond_the_bound_are_turned_away(
    kind: str, short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "descriptor_limit", lambda: 80)
    doors = Doors(short_path, private_directory(tmp_path / "run" / "bus"))
    context = sockets.context()
    known = sockets.dealer(context, doors.endpoints.ipc.ingest)
    try:
        known.poll(2000, 2)
        known.send(b"first")
        assert known.poll(2000)
        with contextlib.ExitStack() as opened:
            place = doors.endpoints.ipc if kind == "ipc" else doors.endpoints.tcp
            crowding = [opened.enter_context(open_raw(place.fetch)) for _ in range(20)]
            wait_for(lambda: doors.refused.get(TOO_MANY, 0) >= 5)
            wait_for(lambda: sum(map(is_cut, crowding)) == 5)
            assert [is_cut(made) for made in crowding] == [False] * 15 + [True] * 5
            known.recv()
            known.send(b"still here")
            assert known.poll(2000)
        # Who has gone makes room.
        with open_raw(place.fetch) as made:
            wait_for(lambda: not is_cut(made))
    finally:
        sockets.terminate(context, [known])
        doors.close()
