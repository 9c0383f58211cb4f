"""Bytes that went over the wire once inject nothing when they are sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doors import Doors, answer, try_send, wait_for
from raw_peers import Tape, speak

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import sockets
from unilab_metrics.transport.allow_list import PUBLISH


@pytest.fixture
def doors(short_path: Path, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(short_path, private_directory(tmp_path / "run" / "bus"))
    yield made
    made.close()


def test_a_recorded_conversation_with_keys_replayed_injects_nothing(doors: Doors):
    tape = Tape(doors.endpoints.tcp.ingest)
    context = sockets.context()
    client = sockets.dealer(context, tape.endpoint, doors.client(PUBLISH))
    try:
        for n in range(5):
            assert try_send(client, b"frame %d" % n)
            assert answer(client) == b"echo frame %d" % n
    finally:
        sockets.terminate(context, [client])
        tape.close()
    assert len(doors.came) == 5
    said = tape.recorded[0]
    assert len(said) > 500
    assert b"frame" not in said
    for start in (64, len(said) // 2):
        heard = speak(doors.endpoints.tcp.ingest, said[:64] + said[start:], 0.2)
        assert b"echo" not in heard
    # The greeting and HELLO are taken, the rest is for a key of a moment that is gone.
    wait_for(lambda: doors.endpoints.refused_total)
    assert len(doors.came) == 5
    assert doors.client(PUBLISH).secret.encode() not in said
