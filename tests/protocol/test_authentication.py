"""Only listed keys come in over TCP, each for its own use, and only ourselves over ipc."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq
from doors import Connect, Open, answer, try_send, wait_for
from zmq.utils import z85

from unilab_metrics.transport import allow_list, authentication, endpoints, keys, sockets
from unilab_metrics.transport.allow_list import PUBLISH, WATCH, AllowList, Grant, Use
from unilab_metrics.transport.authentication import Question, judge
from unilab_metrics.transport.keys import CurveClient
from unilab_metrics.transport.memory_bound import MemoryBound
from unilab_metrics.transport.refusals import LINES_AT_ONCE, Refusals


def stranger(server: str) -> CurveClient:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    return CurveClient(server, public, secret, Path("nowhere"))


# --- the rule ----------------------------------------------------------------------------

KEYS = {name: os.urandom(32) for name in ("publisher", "watcher", "unlisted")}
ALLOWED = AllowList({
    z85.encode(KEYS["publisher"]).decode(): Grant(PUBLISH),
    z85.encode(KEYS["watcher"]).decode(): Grant(WATCH),
})  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "name", "refusal"),
    [
        (b"ingest", "publisher", ""),
        (b"announce", "watcher", ""),
        (b"fetch", "watcher", ""),
        (b"ingest", "watcher", authentication.WATCHER_PUBLISHES),
        (b"announce", "publisher", authentication.PUBLISHER_WATCHES),
        (b"fetch", "publisher", authentication.PUBLISHER_WATCHES),
        (b"ingest", "unlisted", authentication.UNLISTED),
        (b"fetch", "unlisted", authentication.UNLISTED),
        (b"", "publisher", authentication.MALFORMED),
        (b"other", "publisher", authentication.MALFORMED),
    ],
)
def test_a_key_counts_for_its_use(domain: bytes, name: str, refusal: str):
    verdict = judge(Question(domain, "10.0.0.5", b"CURVE", (KEYS[name],)), ALLOWED, 1000)
    assert verdict.refusal == refusal
    if not refusal:
        assert verdict.user == z85.encode(KEYS[name]).decode()


@pytest.mark.parametrize(
    ("address", "refusal"),
    [
        ("localhost:1000:1000:77", ""),
        (":1000:1000:77", ""),
        (":1000::", ""),
        ("localhost", ""),
        ("", ""),
        ("localhost:1001:1000:77", authentication.OTHER_USER),
        (":0:0:1", authentication.OTHER_USER),
        ("127.0.0.1", authentication.NO_KEY),
        ("10.0.0.5", authentication.NO_KEY),
        ("::1", authentication.NO_KEY),
        ("fe80::1000:1000:77", authentication.NO_KEY),
        ("localhost:1000:1000:77x", authentication.NO_KEY),
    ],
)
def test_without_a_key_only_our_own_processes_come_in(address: str, refusal: str):
    verdict = judge(Question(b"ingest", address, b"NULL", ()), ALLOWED, 1000)
    assert verdict.refusal == refusal


@pytest.mark.parametrize("mechanism", [b"PLAIN", b"GSSAPI", b"", b"CURVE"])
def test_what_is_no_key_is_no_key(mechanism: bytes):
    for credentials in ((), (b"user", b"password"), (b"short",)):
        question = Question(b"ingest", "localhost:1000:1000:7", mechanism, credentials)
        assert judge(question, ALLOWED, 1000).refusal


def test_refusals_are_counted_always_and_said_seldom():
    said: list[str] = []
    refusals = Refusals(said.append)
    for n in range(1000):
        refusals.note(f"10.0.{n // 100}.{n % 100}", "no key", n / 1000)
        refusals.note("10.0.0.1", "no key", n / 1000)
    assert refusals.total == 2000
    assert len(said) == LINES_AT_ONCE
    refusals.note("10.9.9.9", "no key", 3600.0)
    assert len(said) == LINES_AT_ONCE + 1


# --- the doors ---------------------------------------------------------------------------


def test_a_listed_key_comes_in_and_its_messages_carry_it(open_doors: Open, connect: Connect):
    doors = open_doors()
    cases: tuple[tuple[Use, Any, str], ...] = (
        (PUBLISH, sockets.dealer, doors.endpoints.tcp.ingest),
        (WATCH, sockets.request, doors.endpoints.tcp.fetch),
    )
    for use, make, endpoint in cases:
        client = connect(make, endpoint, doors.client(use))
        assert try_send(client, b"hello")
        assert answer(client) == b"echo hello"
        assert doors.came[-1][1:] == (doors.client(use).public, b"hello")
    listener = connect(sockets.listen, doors.endpoints.tcp.announce, doors.client(WATCH))
    assert answer(listener) == b"head"
    assert doors.refused == {}


def test_our_own_process_comes_in_over_ipc(open_doors: Open, connect: Connect):
    doors = open_doors(bind="")
    client = connect(sockets.dealer, doors.endpoints.ipc.ingest)
    assert try_send(client, b"hello")
    assert answer(client) == b"echo hello"
    assert doors.came == [("ingest", "ipc", b"hello")]
    assert doors.endpoints.tcp.ingest == ""


def test_another_user_is_refused_on_ipc(
    open_doors: Open, connect: Connect, monkeypatch: pytest.MonkeyPatch
):
    doors = open_doors(bind="")
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    client = connect(sockets.dealer, doors.endpoints.ipc.ingest)
    wait_for(lambda: doors.refused)
    assert set(doors.refused) == {authentication.OTHER_USER}
    assert f"refused uid {ours}, pid {os.getpid()}" in doors.said[0]
    assert not try_send(client, b"x", 0.15)
    assert doors.came == []


WRONG = ["unlisted", "wrong server", "wrong use", "null", "plain"]


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("door", ["ingest", "announce", "fetch"])
def test_nobody_else_gets_or_gives_a_byte(open_doors: Open, door: str, kind: str):
    doors = open_doors()
    endpoint = getattr(doors.endpoints.tcp, door)
    right = doors.client(PUBLISH if door == "ingest" else WATCH)
    context = sockets.context()
    client = context.socket(zmq.SUB if door == "announce" else zmq.DEALER)
    client.set(zmq.LINGER, 0)
    if door == "announce":
        client.set(zmq.SUBSCRIBE, b"")
    else:
        client.set(zmq.IMMEDIATE, 1)
    if kind == "plain":
        client.set(zmq.PLAIN_USERNAME, b"user")
        client.set(zmq.PLAIN_PASSWORD, b"password")
    elif kind != "null":
        used = {
            "unlisted": stranger(right.server),
            "wrong server": right._replace(server=stranger("").public),
            "wrong use": doors.client(WATCH if door == "ingest" else PUBLISH),
        }[kind]
        client.set(zmq.CURVE_SERVERKEY, used.server.encode())
        client.set(zmq.CURVE_PUBLICKEY, used.public.encode())
        client.set(zmq.CURVE_SECRETKEY, used.secret.encode())
    try:
        client.connect(endpoint)
        wait_for(lambda: doors.endpoints.refused_total)
        if door != "announce":
            assert not try_send(client, b"inject", 0.1)
        assert answer(client, 0.1) is None
    finally:
        sockets.terminate(context, [client])
    assert doors.came == []
    assert doors.said


def test_a_revoked_key_is_cut_off_and_a_restored_one_comes_back(open_doors: Open, connect: Connect):
    doors = open_doors()
    path = keys.allowed_path(doors.bus_dir)
    before = path.read_text()
    mine = doors.client(PUBLISH)
    other = stranger(mine.server)
    keys.add_allowed(doors.bus_dir, [allow_list.render(PUBLISH, other.public)])
    both = path.read_text()
    stays = connect(sockets.dealer, doors.endpoints.tcp.ingest, other)
    goes = connect(sockets.dealer, doors.endpoints.tcp.ingest, mine)
    listens = connect(sockets.listen, doors.endpoints.tcp.announce, doors.client(WATCH))
    for client in (stays, goes):
        assert try_send(client, b"one")
        assert answer(client) == b"echo one"
    assert answer(listens) == b"head"

    path.write_text(both.replace(f"publish {mine.public}", f"# publish {mine.public}"))
    wait_for(lambda: authentication.UNLISTED in doors.refused)
    assert not doors.endpoints.may_publish(mine.public, 0)
    assert not try_send(goes, b"two", 0.2)
    # Who is still listed was cut off too, and has come back by itself.
    while listens.poll(0):
        listens.recv()
    assert answer(listens) == b"head"
    assert try_send(stays, b"three")
    assert answer(stays) == b"echo three"
    assert b"two" not in [message for _, _, message in doors.came]

    path.write_text(both)
    wait_for(lambda: doors.endpoints.may_publish(mine.public, 0))
    again = connect(sockets.dealer, doors.endpoints.tcp.ingest, mine)
    assert try_send(again, b"four")
    assert answer(again) == b"echo four"
    assert before in both


def test_who_asks_just_after_a_look_at_the_list_is_not_judged_by_that_look(
    short_path: Path, bus_dir: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
):
    context = sockets.context()
    gate = endpoints.Endpoints(
        context, f"ipc://{short_path}/x", bus_dir, bind="tcp://127.0.0.1", say=lambda _: None
    )
    try:
        door = gate._door
        assert door is not None
        late = stranger(keys.read_client(keys.key_path(bus_dir, PUBLISH), PUBLISH).server)
        look = door.look

        def look_before_it_is_listed(*, at_once: bool = False) -> allow_list.AllowList:
            monkeypatch.setattr(door, "look", look)
            seen = look(at_once=at_once)
            keys.add_allowed(bus_dir, [allow_list.render(PUBLISH, late.public)])
            connect(sockets.dealer, gate.tcp.ingest, late)
            wait_for(lambda: gate._authenticator.is_asked)
            return seen

        monkeypatch.setattr(door, "look", look_before_it_is_listed)
        gate.attend()
        gate.attend()
        assert dict(gate.refused) == {}
        assert gate.may_publish(late.public, 0)
    finally:
        gate.close()
        sockets.terminate(context)


def test_watchers_that_are_cut_off_for_topics_come_back_and_nobody_else_is(
    open_doors: Open, connect: Connect
):
    doors = open_doors()
    publisher = connect(sockets.dealer, doors.endpoints.tcp.ingest, doors.client(PUBLISH))
    assert try_send(publisher, b"one")
    assert answer(publisher) == b"echo one"
    listener = connect(sockets.listen, doors.endpoints.tcp.announce, doors.client(WATCH))

    def has_come_back(joined: int) -> bool:
        listener.poll(0)  # a SUB subscribes anew only when its thread looks at it
        return doors.joined > joined

    for _ in range(2):
        assert answer(listener) == b"head"
        joined = doors.joined
        doors.forgets.set()
        wait_for(partial(has_come_back, joined))
        while listener.poll(0):
            listener.recv()
        assert answer(listener) == b"head"
        publisher.send(b"two", zmq.NOBLOCK)
        assert answer(publisher) == b"echo two"
    assert doors.refused == {endpoints.NO_TOPICS: 2}


def test_who_fills_the_memory_is_cut_off_and_who_means_well_comes_back(
    open_doors: Open, connect: Connect
):
    grown = [0]
    doors = open_doors(memory=MemoryBound(1000, measure=lambda: grown[0]))
    client = connect(sockets.request, doors.endpoints.tcp.fetch, doors.client(WATCH))
    assert try_send(client, b"one")
    assert answer(client) == b"echo one"
    grown[0] = 2000
    wait_for(lambda: endpoints.TOO_MUCH in doors.refused)
    # The answer may still go to the old connection; who gets none asks again.
    for _ in range(20):
        if try_send(client, b"two") and answer(client, 0.5) == b"echo two":
            break
    else:
        pytest.fail("nobody answers any more")
    assert doors.refused == {endpoints.TOO_MUCH: 1}


@pytest.mark.parametrize("damage", ["missing", "wide", "symlink", "binary"])
def test_without_a_list_nobody_comes_in_over_tcp(
    open_doors: Open, connect: Connect, damage: str, tmp_path: Path
):
    doors = open_doors()
    mine = doors.client(PUBLISH)
    path = keys.allowed_path(doors.bus_dir)
    text = path.read_bytes()
    if damage == "wide":
        path.chmod(0o644)
    elif damage == "binary":
        path.write_bytes(b"\xff\xfe")
    else:
        path.rename(tmp_path / "moved")
    if damage == "symlink":
        path.symlink_to(tmp_path / "moved")
    wait_for(lambda: not doors.endpoints.may_publish(mine.public, 0))
    client = connect(sockets.dealer, doors.endpoints.tcp.ingest, mine)
    assert not try_send(client, b"x", 0.15)
    assert any("nobody is let in over TCP" in line and str(path) in line for line in doors.said)
    path.unlink(missing_ok=True)
    path.write_bytes(text)
    path.chmod(0o600)
    wait_for(lambda: doors.endpoints.may_publish(mine.public, 0))


def test_a_key_speaks_for_its_ranks_only_and_no_viewer_for_a_writer(open_doors: Open):
    doors = open_doors()
    public = stranger("").public
    keys.add_allowed(doors.bus_dir, [allow_list.render(PUBLISH, public, ranks=[1])])
    wait_for(lambda: doors.endpoints.may_publish(public, 1))
    assert not doors.endpoints.may_publish(public, 0)
    assert not doors.endpoints.may_publish(doors.client(WATCH).public, 1)
    assert doors.endpoints.may_publish("ipc", 0)
    assert doors.endpoints.may_report("ipc")
    assert not doors.endpoints.may_report(doors.client(WATCH).public)
    assert any("not for this rank (0)" in reason for reason in doors.refused)
