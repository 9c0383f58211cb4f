"""Where an aggregator listens, what it publishes of it, and what is no address."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from doors import Connect, Open, answer, try_send, wait_for

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport import keys, sockets
from unilab_metrics.transport.addresses import node_address, parse_tcp, reachable_host
from unilab_metrics.transport.allow_list import WATCH


def test_ports_are_kept_and_a_taken_one_is_replaced(open_doors: Open, bus_dir: Path):
    first = open_doors()
    addresses = first.endpoints.tcp
    first.close()
    second = open_doors()
    assert second.endpoints.tcp == addresses
    second.close()
    port = parse_tcp(addresses.fetch).port
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", port))
        thief.listen()
        third = open_doors()
        assert third.endpoints.tcp.fetch != addresses.fetch
        assert third.endpoints.tcp.ingest == addresses.ingest
        assert f"port {port} of 127.0.0.1 is taken" in third.said[0]


def test_an_asked_port_is_the_one_for_viewers_and_the_next_two_follow(open_doors: Open):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    tcp = open_doors(bind=f"tcp://127.0.0.1:{port}").endpoints.tcp
    assert tcp.announce == f"tcp://127.0.0.1:{port}"


def test_a_wildcard_is_published_as_an_address_that_others_reach(
    open_doors: Open, connect: Connect
):
    doors = open_doors(bind="tcp://*")
    address = parse_tcp(doors.endpoints.tcp.fetch)
    assert address.host == node_address() != "*"
    client = connect(sockets.request, doors.endpoints.tcp.fetch, doors.client(WATCH))
    assert try_send(client, b"x")
    assert answer(client) == b"echo x"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_works_too(open_doors: Open, connect: Connect):
    doors = open_doors(bind="tcp://[::1]")
    if doors.endpoints.problem:
        pytest.skip(doors.endpoints.problem)
    assert doors.endpoints.tcp.fetch.startswith("tcp://[::1]:")
    client = connect(sockets.request, doors.endpoints.tcp.fetch, doors.client(WATCH))
    assert try_send(client, b"x")
    assert answer(client) == b"echo x"
    text = keys.allowed_path(doors.bus_dir).read_text()
    keys.allowed_path(doors.bus_dir).write_text(text.replace("watch ", "# watch "))
    wait_for(lambda: doors.refused)
    assert not try_send(client, b"y", 0.2)


def test_an_address_of_another_machine_costs_tcp_only(open_doors: Open, connect: Connect):
    doors = open_doors(bind="tcp://192.0.2.1")
    assert "other nodes cannot reach this run: tcp://192.0.2.1" in doors.endpoints.problem
    assert doors.endpoints.tcp.ingest == ""
    client = connect(sockets.dealer, doors.endpoints.ipc.ingest)
    assert try_send(client, b"x")
    assert answer(client) == b"echo x"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("tcp://10.0.0.5", "10.0.0.5", 0),
        ("tcp://10.0.0.5:7400", "10.0.0.5", 7400),
        ("tcp://*", "*", 0),
        ("tcp://*:*", "*", 0),
        ("tcp://node-1.cluster:80", "node-1.cluster", 80),
        ("tcp://[::1]:7400", "::1", 7400),
        ("tcp://[fd00::2]", "fd00::2", 0),
    ],
)
def test_addresses_are_understood(text: str, host: str, port: int):
    found = parse_tcp(text)
    assert (found.host, found.port) == (host, port)
    assert parse_tcp(found.endpoint) == found


@pytest.mark.parametrize(
    "text",
    [
        "", "10.0.0.5", "udp://10.0.0.5", "tcp://", "tcp://:1", "tcp://host:x", "tcp://host:70000",
        "tcp://::1", "tcp://[::1", "tcp://[host]", "tcp://[::1]7", "tcp://a b", "tcp://h:-1",
        "tcp://eth0;tcp://h", "tcp://h/path", "ipc:///x",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(EndpointError):
        parse_tcp(text)


@pytest.mark.parametrize("make", [sockets.dealer, sockets.request, sockets.listen])
def test_there_is_no_tcp_without_a_key(make: Any):
    context = sockets.context()
    with pytest.raises(EndpointError, match="needs a key"):
        make(context, "tcp://127.0.0.1:1")
    sockets.terminate(context)


def test_the_address_for_others_is_a_real_one():
    assert node_address() not in {"", "*", "0.0.0.0"}
    assert reachable_host("10.0.0.5") == "10.0.0.5"
    assert reachable_host("0.0.0.0", "127.0.0.1") == node_address()
    assert node_address("no-such-host.invalid") == node_address()
