"""Garbage at every socket of a live run: counted, answered sparingly, and of no consequence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from garbage import OVERSIZED, RawPeer, garbage_messages, identity
from real_runs import start, until

from unilab_metrics.run.verify import verify_run
from unilab_metrics.storage.lease import Lease
from unilab_metrics.transport import rendezvous, sockets
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_schema.codec import decode_head, encode_message
from unilab_schema.control import Batch, Fetch, Head, History, Latest, Reject

TRAINING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="ppo", run_dir=run_dir) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
print(iteration)
"""


class Watcher:
    """Reads announcements; knows the newest one."""

    def __init__(self, endpoint: str) -> None:
        self._context = sockets.context()
        self._socket = sockets.listen(self._context, endpoint)
        self.longest_still_s = 0.0
        self._update, self._moved_s = -1, time.monotonic()
        self._head: Head | None = None

    def head(self) -> Head:
        """The newest announcement; notes for how long the updates stood still."""
        wait_ms = 30_000 if self._head is None else 0
        while self._socket.poll(wait_ms):
            wait_ms = 0
            self._head = decode_head(self._socket.recv())
            now_s = time.monotonic()
            if self._head.update > self._update:
                if self._update >= 0:
                    self.longest_still_s = max(self.longest_still_s, now_s - self._moved_s)
                self._update, self._moved_s = self._head.update, now_s
        assert self._head is not None
        return self._head

    def close(self) -> None:
        sockets.terminate(self._context, [self._socket])


@contextmanager
def live_run(tmp_path: Path) -> Iterator[tuple[ConnectionFile, Watcher]]:
    """A training at 100 iterations a second; its run must end whole and verified."""
    run_dir, stop = tmp_path / "run", tmp_path / "stop"
    training = start(TRAINING, str(run_dir), str(stop))
    try:
        until((bus_directory(run_dir) / "bus.json").exists, 60)
        connection = rendezvous.read(bus_directory(run_dir))
        watcher = Watcher(connection.announce)
        try:
            until(lambda: watcher.head().update > 20, 60)
            yield connection, watcher
        finally:
            watcher.close()
            stop.touch()
            output, errors = training.communicate(timeout=60)
    finally:
        training.kill()
        training.communicate()
    assert errors == ""
    until(lambda: verify_run(run_dir).history.ended is not None, 60)
    verified = verify_run(run_dir)
    assert verified.points_per_tag["Loss/value"] == int(output)
    assert verified.lost_frames == 0


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


def thrown_at_a_live_run(tmp_path: Path, per_socket: int) -> tuple[float, float]:
    """Updates a second before and during the garbage."""
    lease = Lease.create(tmp_path, "lease", b"")
    try:
        with live_run(tmp_path) as (connection, watcher):
            began_s, first = time.monotonic(), watcher.head().update
            until(lambda: time.monotonic() - began_s > 1.0)
            calm = (watcher.head().update - first) / (time.monotonic() - began_s)
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


def test_garbage_at_every_socket_neither_ends_nor_slows_a_run(tmp_path: Path) -> None:
    calm, storm = thrown_at_a_live_run(tmp_path, 10_000)
    assert storm > calm / 4


@pytest.mark.slow
def test_a_million_messages_of_garbage_neither_end_nor_slow_a_run(tmp_path: Path) -> None:
    calm, storm = thrown_at_a_live_run(tmp_path, 333_333)
    assert storm > calm / 4


def test_a_subscribers_flood_of_requests_does_not_starve_the_training(tmp_path: Path) -> None:
    with live_run(tmp_path) as (connection, watcher), RawPeer(zmq.DEALER, connection.fetch) as peer:
        requests = [encode_message(m) for m in (Fetch(1, 0, 10_000), Latest(2), History(3))]
        began_s, first = time.monotonic(), watcher.head().update
        sent = 0
        while time.monotonic() - began_s < 2.0:
            if peer.socket.poll(10, zmq.POLLOUT):
                peer.socket.send(requests[sent % 3], zmq.NOBLOCK)
                sent += 1
            watcher.head()
        assert sent > 100
        assert watcher.head().update - first > 50
        assert watcher.longest_still_s < 2.0


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
