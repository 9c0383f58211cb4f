"""A rank and a viewer on other nodes: over TCP, with keys, over everything that can happen."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, run, updates
from far_ranks import FarRanks
from real_runs import until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe import line as line_module
from unilab_metrics.subscribe import whereabouts
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import keys, rendezvous, routes
from unilab_metrics.transport.allow_list import PUBLISH, WATCH
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_schema.updates import Update


@pytest.fixture
def ranks(run_dir: Path) -> Iterator[FarRanks]:
    both = FarRanks(run_dir)
    yield both
    both.kill()


def connection_file(run_dir: Path) -> ConnectionFile:
    aggregator_pid(run_dir)
    return rendezvous.read(bus_directory(run_dir))


def tcp_connections(process: psutil.Process) -> list[int]:
    """Ports to which a process is connected."""
    return [
        connection.raddr.port
        for connection in process.net_connections("tcp")
        if connection.raddr and connection.status == psutil.CONN_ESTABLISHED
    ]


def means(run_dir: Path) -> list[tuple[int, float, int]]:
    return [
        (update.iteration, values["Loss/value"], update.ranks_reported)
        for update, values in updates(run_dir)
        if "Loss/value" in values
    ]


def watch(run_dir: Path) -> Subscriber:
    file = connection_file(run_dir)
    return Subscriber.attach_remote(file.tcp_announce, keys.key_path(bus_directory(run_dir), WATCH))


def seen(viewer: Subscriber, iteration: int, timeout_s: float = 60.0) -> list[int]:
    """The iterations that come until this one has."""
    found: list[int] = []
    deadline_s = time.monotonic() + timeout_s
    while iteration not in found:
        assert time.monotonic() < deadline_s, found
        entries = [record.entry for record in viewer.poll(50)]
        found += [entry.iteration for entry in entries if isinstance(entry, Update)]
    return found


def secrets_of(run_dir: Path) -> list[str]:
    """Every secret key of a run."""
    folder = keys.key_directory(bus_directory(run_dir))
    return [json.loads(path.read_bytes())["secret"] for path in folder.glob("*.key")]


def test_a_rank_elsewhere_comes_over_tcp_and_one_here_over_ipc(
    ranks: FarRanks, monkeypatch: pytest.MonkeyPatch
):
    ranks.log(times=20)
    file = connection_file(ranks.run_dir)
    port = int(file.tcp_ingest.rpartition(":")[2])
    until(lambda: port in tcp_connections(psutil.Process(ranks.far.pid)))
    assert tcp_connections(psutil.Process(ranks.near.pid)) == []
    with watch(ranks.run_dir) as viewer:
        assert seen(viewer, 19) == list(range(20))
        ranks.log()
        assert seen(viewer, 20) == [20]
        head = viewer.head
        assert head is not None
        assert (head.refused_connections, len(head.sources)) == (0, 2)
    # Another node that sees the run directory needs neither address nor key by hand.
    for module in (whereabouts, routes):
        monkeypatch.setattr(module, "boot_id", lambda: "elsewhere")
    with Subscriber.attach(ranks.run_dir) as viewer:
        assert seen(viewer, 20) == list(range(21))
        assert viewer.snapshot() is not None
    monkeypatch.undo()
    secrets = secrets_of(ranks.run_dir)
    assert len(secrets) == 3
    for pid in (file.pid, ranks.near.pid, ranks.far.pid):
        process = psutil.Process(pid)
        told = " ".join([*process.cmdline(), *process.environ().values()])
        assert not any(secret in told for secret in secrets)
    assert ranks.end() == ("True [] {}", "True [] {}")
    assert ended(ranks.run_dir).dropped_calls == {}
    assert means(ranks.run_dir) == [(n, float(n), 2) for n in range(21)]
    for path in ranks.run_dir.rglob("*"):
        if path.is_file() and path.suffix != ".key":
            content = path.read_bytes()
            assert not any(secret.encode() in content for secret in secrets), path


@pytest.mark.slow
def test_a_restarted_aggregator_has_the_same_ports_and_loses_nobody(
    ranks: FarRanks, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SILENT_S", 1.0)
    ranks.log(times=10)
    before = connection_file(ranks.run_dir)
    with watch(ranks.run_dir) as viewer:
        assert seen(viewer, 9) == list(range(10))
        os.kill(before.pid, signal.SIGKILL)
        ranks.log(times=10)
        aggregator_pid(ranks.run_dir, other_than=before.pid)
        after = connection_file(ranks.run_dir)
        assert after.tcp_ingest == before.tcp_ingest
        assert after.tcp_announce == before.tcp_announce
        assert after.server_key == before.server_key
        assert seen(viewer, 19) == list(range(10, 20))
        assert viewer.lost_entries == 0
    near, far = ranks.end()
    assert near.startswith("True")
    assert far == "True [] {}"
    assert ended(ranks.run_dir).lost_frames == 0
    assert means(ranks.run_dir) == [(n, float(n), 2) for n in range(20)]


@pytest.mark.slow
def test_a_revoked_key_is_named_and_a_restored_one_delivers_everything(ranks: FarRanks):
    usual_us = ranks.log(times=5)
    bus = bus_directory(ranks.run_dir)
    connection_file(ranks.run_dir)
    public = keys.read_client(keys.key_path(bus, PUBLISH), PUBLISH).public
    path = keys.allowed_path(bus)
    text = path.read_text()
    with watch(ranks.run_dir) as viewer:
        seen(viewer, 4)
        path.write_text(text.replace(f"publish {public}", f"# publish {public}"))

        def is_refused() -> bool:
            viewer.poll(20)
            return viewer.head is not None and viewer.head.refused_connections > 0

        until(is_refused)
        # It waits for no aggregator.
        assert ranks.log(times=50) < 20 * usual_us + 2000
        # It asks again with a new socket, as a refused one is refused for ever.
        refused = viewer.head.refused_connections if viewer.head else 0

        def asks_again() -> bool:
            viewer.poll(20)
            return viewer.head is not None and viewer.head.refused_connections > refused

        until(asks_again)
        path.write_text(text)
        ranks.log()
        assert 55 in seen(viewer, 55)
    near, far = ranks.end()
    assert near == "True [] {}"
    assert far.startswith("True ")
    assert "refuses the key" in far
    assert str(keys.key_path(bus, PUBLISH)) in far
    assert far.endswith(" {}")
    verified = ended(ranks.run_dir)
    assert verified.dropped_calls == {}
    # It has cost no frame, so it is no drop.
    bus = (read_summary(ranks.run_dir) or {})["bus"]
    assert bus["troubles"] == {"key_refused": 1}
    assert {iteration for iteration, _, _ in means(ranks.run_dir)} == set(range(56))
    log = (bus_directory(ranks.run_dir) / "aggregator.log").read_text()
    assert "127.0.0.1 (ingest): its key is not on the allow-list" in log


BIND = """
import sys
import unilab_metrics as um
publisher = um.init(run_dir=sys.argv[1], world_size=1, rank=0)
publisher.log({"a": 1.0}, iteration=0)
assert publisher.close(), publisher.errors
print(publisher.errors, publisher.dropped)
"""


JOB = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(("environment", "listens"), [({}, False), (JOB, True)])
def test_a_run_listens_on_tcp_if_its_job_spans_nodes(
    run_dir: Path, environment: dict[str, str], listens: bool
):
    assert run(BIND, run_dir, **environment) == "[] {}\n"
    ended(run_dir)
    bus = bus_directory(run_dir)
    assert (bus / "ports.json").exists() is listens
    assert keys.key_directory(bus).exists() is listens
    assert (bus / "aggregator.log").read_text() == ""
