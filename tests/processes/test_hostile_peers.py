"""Strangers at the sockets of a training cost it nothing and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq
from case_runs import aggregator_pid, ended, start, updates
from doors import Doors, wait_for
from raw_peers import nonsense, open_raw, socket_path, speak
from real_runs import until

from unilab_metrics.run.meeting.finding import BusFinder
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import scan
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import authentication, keys, rendezvous, sockets
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_schema.codec import decode_payload, encode_message
from unilab_schema.control import Batch, Hello

TRAINING = """
import resource, sys
import unilab_metrics as um

if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1], bind="tcp://127.0.0.1")
iteration = 0
for line in sys.stdin:
    if line.strip() == "end":
        break
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
    iteration += 1
print(publisher.close(30), publisher.errors, publisher.dropped, flush=True)
"""


class Training:
    def __init__(self, run_dir: Path, *arguments: str) -> None:
        self.run_dir = run_dir
        self.process = start(TRAINING, run_dir, *arguments)
        self.iterations = 0
        self.pid = aggregator_pid(run_dir)
        self.file: ConnectionFile = rendezvous.read(bus_directory(run_dir))
        assert self.file.tcp_ingest

    def log(self, times: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("log\n" * times)
        self.process.stdin.flush()
        self.iterations += times

    def end(self) -> None:
        """Everything must have come through, by the very aggregator that it began with."""
        assert psutil.Process(self.pid).is_running()
        output, errors = self.process.communicate("end\n", timeout=90)
        assert (output, errors) == ("True [] {}\n", "")
        assert ended(self.run_dir).dropped_calls == {}
        found = [
            update.iteration for update, values in updates(self.run_dir) if "Loss/value" in values
        ]
        assert found == list(range(self.iterations))


@pytest.fixture
def trainings() -> Iterator[list[Training]]:
    started: list[Training] = []
    yield started
    for training in started:
        if training.process.poll() is None:
            training.process.kill()
        training.process.communicate()


def test_bytes_that_are_no_zmtp_neither_stop_nor_slow_a_run(
    run_dir: Path, trainings: list[Training]
):
    training = Training(run_dir)
    trainings.append(training)
    file = training.file
    doors = [
        file.tcp_ingest, file.tcp_announce, file.tcp_fetch, file.ingest, file.announce, file.fetch,
    ]  # fmt: skip
    chance = random.Random(41)
    aggregator = psutil.Process(training.pid)
    before_bytes = aggregator.memory_info().rss
    for n in range(400):
        heard = speak(doors[n % 6], nonsense(chance), wait_s=0.0 if n % 20 else 0.05)
        assert b"Loss" not in heard
        if n % 10 == 0:
            training.log(1)
    assert aggregator.memory_info().rss - before_bytes < 50e6
    with Subscriber.attach(run_dir) as viewer:

        def counts_them() -> bool:
            viewer.poll(50)
            return viewer.head is not None and viewer.head.refused_connections > 50

        until(counts_them)
    training.end()
    log = (bus_directory(run_dir) / "aggregator.log").read_text().splitlines()
    assert 0 < len(log) < 30
    assert all("refused a peer" in line for line in log), log


def _raise_limit(descriptors: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(descriptors, hard), hard))


ENDLESS = """
import sys, time, zmq
from pathlib import Path
from unilab_metrics.transport import keys, sockets
context = sockets.context()
client = sockets.request(context, sys.argv[1], keys.read_client(Path(sys.argv[2]), "watch"))
part = bytes(1_000_000)
deadline = time.monotonic() + 20
sent = 0
while sent < 700 and time.monotonic() < deadline:
    try:
        client.send(part, zmq.NOBLOCK | zmq.SNDMORE, copy=False)
        sent += 1
        # It takes seconds in all, so that a busy aggregator comes to look in between.
        time.sleep(0.005)
    except zmq.Again:
        time.sleep(0.01)
# libzmq hands a message on when its last part is there.
client.send(b"", zmq.NOBLOCK)
sys.stdin.readline()
sockets.terminate(context, [client])
"""


@pytest.mark.slow
def test_a_message_without_end_is_cut_off_and_its_memory_given_back(
    run_dir: Path, trainings: list[Training]
):
    training = Training(run_dir)
    trainings.append(training)
    training.log(10)
    aggregator = psutil.Process(training.pid)
    before_bytes = aggregator.memory_info().rss
    key = keys.key_path(bus_directory(run_dir), "watch")
    most_bytes = 0
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, training.file.tcp_fetch, str(key)],
        stdin=subprocess.PIPE,
    ) as flood:

        def is_cut_off() -> bool:
            nonlocal most_bytes
            most_bytes = max(most_bytes, aggregator.memory_info().rss - before_bytes)
            log = (bus_directory(run_dir) / "aggregator.log").read_text()
            return "fills the memory" in log

        until(is_cut_off)
        until(lambda: aggregator.memory_info().rss - before_bytes < 150e6)
        flood.kill()
    assert most_bytes < 650e6
    training.log(10)
    training.end()


@pytest.mark.slow
def test_a_flood_of_idle_connections_leaves_those_who_were_there_alone(
    run_dir: Path, trainings: list[Training]
):
    _raise_limit(4096)
    training = Training(run_dir, "512")
    trainings.append(training)
    training.log(10)
    with contextlib.ExitStack() as opened:
        viewer = opened.enter_context(Subscriber.attach(run_dir))
        until(lambda: viewer.poll(50) is not None and viewer.head)
        deadline_s = time.monotonic() + 12
        most = 0
        while time.monotonic() < deadline_s:
            for endpoint in (training.file.tcp_ingest, training.file.tcp_announce):
                for _ in range(40):
                    with contextlib.suppress(OSError):
                        opened.enter_context(open_raw(endpoint, 0.05))
            most = max(most, psutil.Process(training.pid).num_fds())
            # A new peer on this node needs a descriptor too.
            with open_raw(training.file.announce):
                training.log(2)
            viewer.poll(20)
            assert viewer.connected
        assert most > 200
    training.end()


@pytest.mark.slow
def test_more_peers_of_this_node_than_there_are_descriptors_end_nothing(
    run_dir: Path, trainings: list[Training]
):
    training = Training(run_dir, "160")
    trainings.append(training)
    training.log(10)
    with Subscriber.attach(run_dir) as viewer, contextlib.ExitStack() as opened:
        until(lambda: viewer.poll(50) is not None and viewer.head)
        most = 0
        for _ in range(25):
            for endpoint in (training.file.ingest, training.file.fetch) * 4:
                with contextlib.suppress(OSError):
                    opened.enter_context(open_raw(endpoint))
            training.log(1)
            most = max(most, psutil.Process(training.pid).num_fds())
            # It looks at its connections as often as it announces. What it leaves free is for what
            # comes between two looks, and without a descriptor libzmq ends the process. The first
            # announcement that comes may have been on its way already.
            for _ in range(2):
                head = viewer.head
                until(lambda head=head: viewer.poll(20) is not None and viewer.head is not head)
            assert viewer.connected
        assert 90 < most < 160
    training.end()
    assert "too many connections" in (bus_directory(run_dir) / "aggregator.log").read_text()


def test_what_a_source_says_twice_counts_once(run_dir: Path, trainings: list[Training]):
    training = Training(run_dir)
    trainings.append(training)
    training.log(30)
    with Subscriber.attach(run_dir) as viewer:
        until(lambda: viewer.poll(50) is not None and (viewer.cursor or 0) >= 30)
        messages = _own_words()
        context = sockets.context()
        sender = sockets.dealer(context, training.file.ingest)
        try:
            for message in [messages[0], *messages, *messages, messages[0], *messages[1:] * 3]:
                until(lambda message=message: _sent(sender, message))
                training.log(1)
        finally:
            sockets.terminate(context, [sender])
        training.end()


def _own_words() -> list[bytes]:
    """Hello and batches of the one source of this test, made again from its spool."""
    (segment,) = spool_root().rglob("spool-*")
    data = segment.read_bytes()
    records = scan(data).records
    identity = decode_payload(records[0].kind, records[0].payload)
    last = records[-1].sequence
    hello = Hello(identity, 1, last, time.monotonic_ns(), time.time_ns())
    everything = Batch(identity.incarnation, 0, 0, 0, data[records[0].end : records[-1].end])
    tail = Batch(identity.incarnation, 0, 0, 0, data[records[-5].start : records[-1].end])
    return [encode_message(message) for message in (hello, everything, tail)]


def _sent(sender: zmq.Socket[bytes], message: bytes) -> bool:
    try:
        sender.send(message, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


NOBODY = 65534
STRANGER = """
import os, socket, sys
import zmq
os.setgroups([]); os.setgid(65534); os.setuid(65534)
made = socket.socket(socket.AF_UNIX)
try:
    made.connect(sys.argv[1])
except OSError as error:
    print(type(error).__name__)
    sys.exit()
context = zmq.Context()
dealer = context.socket(zmq.DEALER)
dealer.linger = 0
dealer.connect("ipc://" + sys.argv[1])
dealer.send(b"inject")
print("answered" if dealer.poll(1000) else "nothing")
context.destroy(linger=0)
"""


def _as_nobody(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(path)],
        capture_output=True, text=True, timeout=30, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_does_not_reach_an_ipc_socket_nor_is_let_in(short_path: Path, tmp_path: Path):
    doors = Doors(short_path, private_directory(tmp_path / "run" / "bus"), bind="")
    try:
        path = socket_path(doors.endpoints.ipc.ingest)
        assert _as_nobody(path) == "PermissionError"
        # Somebody has opened the directory: the kernel's word about the peer still counts.
        for folder in (short_path, *short_path.parents[:1]):
            folder.chmod(0o711)
        path.chmod(0o666)
        assert _as_nobody(path) == "nothing"
        wait_for(lambda: doors.refused.get(authentication.OTHER_USER))
        assert any(f"uid {NOBODY}" in line for line in doors.said)
        assert doors.came == []
    finally:
        doors.close()


@pytest.mark.parametrize("damage", ["wide", "symlink"])
def test_a_connection_file_that_others_may_have_written_leads_nobody_anywhere(
    run_dir: Path, tmp_path: Path, damage: str
):
    bus_dir = private_directory(bus_directory(run_dir))
    path = bus_dir / "bus.json"
    rendezvous.write(
        bus_dir, ConnectionFile(**dict.fromkeys(_TEXTS, "x"), pid=1, started_unix_ns=1)
    )
    if damage == "wide":
        path.chmod(0o644)
    else:
        path.rename(tmp_path / "bus.json")
        path.symlink_to(tmp_path / "bus.json")
    assert BusFinder(run_dir, "")() is None
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "attach", str(run_dir), "--lines"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert str(path) in done.stderr


_TEXTS = ("run_dir", "journal", "boot_id", "host", "ingest", "announce", "fetch")
