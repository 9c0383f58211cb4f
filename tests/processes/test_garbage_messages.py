"""Garbage at every socket of a live run: counted, answered sparingly, and of no consequence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import zmq
from garbage import OVERSIZED, RawPeer, garbage_messages, identity
from live_runs import Watcher, live_run
from real_runs import until

from unilab_metrics.storage.lease import Lease
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import encode_message
from unilab_schema.control import Batch, Reject
from unilab_schema.requests import Fetch, History, Latest

MOST_PER_S = 100.0
"""What the training logs at most."""


def throw(connection: ConnectionFile, watcher: Watcher, per_socket: int, lease: Path) -> int:
    """Garbage at each socket in turn; how many messages. The last ones come from a source."""
    thrown = 0
    for kind, endpoint in (
        (zmq.DEALER, connection.ingest),
        (zmq.XSUB, connection.announce),
        (zmq.DEALER, connection.fetch),
    ):
        with RawPeer(kind, endpoint) as peer:
            for at, message in enumerate(garbage_messages(kind, per_socket)):
                # On XPUB, 0 and 1 mean subscriptions: those are no garbage.
                peer.send(b"\xff" + message if kind == zmq.XSUB else message)
                thrown += 1
                if at % 500 == 0:
                    watcher.head()
                if kind == zmq.XSUB and at % 5000 == 4999:
                    # It has no back-pressure: what its queue does not hold is dropped.
                    _await_count(watcher, thrown)
            if kind == zmq.DEALER:
                peer.send(b"three", b"parts", b"each")
                thrown += 1
            _await_count(watcher, thrown)
            if kind == zmq.DEALER and endpoint == connection.ingest:
                assert len(peer.answers()) < per_socket / 10, "a flood is not answered with one"
            peer.send(OVERSIZED)
    with RawPeer(zmq.DEALER, connection.ingest) as peer:
        who = identity(lease)
        peer.greet(who)
        for message in garbage_messages(4, 100):
            peer.send(message)
        peer.send(encode_message(Batch(who.incarnation, 0, 0, 0, b"um\x01 no record at all")))
        thrown += 101

        def counted() -> int:
            statuses = {status.key: status for status in watcher.head().sources}
            return statuses[who.key].bad_messages if who.key in statuses else 0

        until(lambda: counted() == 101, 30)
    return thrown


def _await_count(watcher: Watcher, count: int) -> None:
    deadline_s = time.monotonic() + 30
    while (found := watcher.head().bad_messages) < count:
        assert time.monotonic() < deadline_s, f"{found} of {count} counted"
        time.sleep(0.02)


def _calm(watcher: Watcher) -> float:
    """Updates a second. Right after its start a run has more of them than the training logs."""
    began_s, first = time.monotonic(), watcher.head().update
    until(lambda: time.monotonic() - began_s > 1.0)
    calm = (watcher.head().update - first) / (time.monotonic() - began_s)
    return min(calm, MOST_PER_S)


def thrown_at_a_live_run(tmp_path: Path, per_socket: int) -> tuple[float, float]:
    """Updates a second before and during the garbage."""
    lease = Lease.create(tmp_path, "lease", b"")
    try:
        with live_run(tmp_path) as (connection, watcher):
            calm = _calm(watcher)
            began_s, first = time.monotonic(), watcher.head().update
            thrown = throw(connection, watcher, per_socket, lease.path)
            took_s = time.monotonic() - began_s
            storm = (watcher.head().update - first) / took_s
            _await_count(watcher, thrown)
            print(f"{thrown} in {took_s:.1f} s; {calm:.0f} updates/s before, {storm:.0f} during")
            assert watcher.longest_still_s < 5.0
            lease.release()
        return calm, storm
    finally:
        lease.release()


@pytest.mark.slow
def test_garbage_at_every_socket_neither_ends_nor_slows_a_run(tmp_path: Path) -> None:
    calm, storm = thrown_at_a_live_run(tmp_path, 10_000)
    assert storm > calm / 4


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_million_messages_of_garbage_neither_end_nor_slow_a_run(tmp_path: Path) -> None:
    calm, storm = thrown_at_a_live_run(tmp_path, 333_333)
    assert storm > calm / 4


@pytest.mark.slow
def test_a_subscribers_flood_of_requests_does_not_starve_the_training(tmp_path: Path) -> None:
    with live_run(tmp_path) as (connection, watcher), RawPeer(zmq.DEALER, connection.fetch) as peer:
        requests = [encode_message(m) for m in (Fetch(1, 0, 10_000), Latest(2), History(3))]
        calm = _calm(watcher)
        began_s, first = time.monotonic(), watcher.head().update
        sent = updates = 0
        while time.monotonic() - began_s < 2.0 or sent < 100 or updates < 50:
            assert time.monotonic() - began_s < 30.0, (sent, updates)
            if peer.socket.poll(10, zmq.POLLOUT):
                peer.socket.send(requests[sent % 3], zmq.NOBLOCK)
                sent += 1
            updates = watcher.head().update - first
        assert updates / (time.monotonic() - began_s) > calm / 4


def test_an_unknown_source_is_told_so_sparingly(tmp_path: Path) -> None:
    with (
        live_run(tmp_path) as (connection, watcher),
        RawPeer(zmq.DEALER, connection.ingest) as peer,
    ):
        for number in range(5000):
            peer.send(encode_message(Batch(number.to_bytes(16, "big"), 0, 0, 0)))
        first = watcher.head().update
        until(lambda: watcher.head().update > first + 20, 30)
        answers = peer.answers()
        assert answers
        assert all(isinstance(a, Reject) and a.code == "unknown_source" for a in answers)
        assert len(answers) < 500
