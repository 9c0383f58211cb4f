"""Real stores of torch, and publishers whose training has a store that does not work."""

from __future__ import annotations

import datetime as dt
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stores_on_paper import HangingStore, PaperStore, RaisingStore, initialise

import unilab_metrics as um
from unilab_metrics.publish.losses import STORE_UNUSABLE
from unilab_metrics.run.meeting import torch_store
from unilab_metrics.run.meeting.torch_store import Store, TorchStore


def publisher_of_rank_1(**arguments: Any) -> um.Publisher:
    return um.init(
        algorithm="ppo", task="Toy", sim_backend="numpy", rank=1, world_size=2, **arguments
    )


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def close(publisher: um.Publisher) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not publisher.close(0.2)


def test_a_store_that_hangs_holds_up_the_shipper_only(monkeypatch: pytest.MonkeyPatch):
    store = HangingStore()
    initialise(monkeypatch, store)
    began_s = time.monotonic()
    publisher = publisher_of_rank_1()
    assert store.asked.wait(20)
    for iteration in range(500):
        publisher.log({"Loss/value": 1.0}, iteration=iteration)
    with pytest.warns(RuntimeWarning, match=r"50\d unsent"):
        assert not publisher.close(0.2)
    took_s = time.monotonic() - began_s
    store.free.set()
    assert took_s < 20
    assert publisher.dropped == {}


def test_a_store_that_raises_is_counted_and_said_once(monkeypatch: pytest.MonkeyPatch):
    store = RaisingStore()
    initialise(monkeypatch, store)
    publisher = publisher_of_rank_1()
    until(lambda: publisher.troubles.get(STORE_UNUSABLE, 0) >= 2)
    assert publisher.dropped == {}
    said = [text for text in publisher.errors if "store" in text]
    text = "torch.distributed's store is of no use for finding the run"
    assert said == [f"ConnectionError: {text}: RuntimeError: the store is gone"]
    close(publisher)


def test_the_store_can_be_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNILAB_METRICS_STORE", "none")
    store = PaperStore()
    initialise(monkeypatch, store)
    publisher = publisher_of_rank_1()
    time.sleep(0.3)
    close(publisher)
    assert store.calls == []


def test_connect_leaves_a_store_alone(monkeypatch: pytest.MonkeyPatch):
    store = PaperStore()
    initialise(monkeypatch, store)
    publisher = um.connect()
    publisher.log({"reward/x": 1.0})
    time.sleep(0.2)
    close(publisher)
    assert store.calls == []


class Box:
    """Holds a store until the test's end, when pytest still holds what the fixture gave."""

    store: Any = None

    def find(self) -> Any:
        return self.store


@pytest.fixture(params=["hash", "file", "tcp", "tcp without libuv", "prefix"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    made = Box()
    dist = pytest.importorskip("torch.distributed")
    if request.param == "hash":
        made.store = dist.HashStore()
    elif request.param == "file":
        made.store = dist.FileStore(os.fspath(tmp_path / "store"), 2)
    else:
        limit, uv = dt.timedelta(seconds=20), "without" not in request.param
        made.store = dist.TCPStore("127.0.0.1", 0, 1, True, timeout=limit, use_libuv=uv)
    if request.param == "prefix":
        made.store = dist.PrefixStore("a", dist.PrefixStore("b", made.store))
    yield made
    made.store = None


def test_every_kind_of_store_is_visited(box: Box):
    troubles: list[str] = []
    seen: list[Any] = []

    def use(store: Store) -> None:
        seen.append(store.check(["k"]))
        store.set("k", "väl")
        seen.extend([store.check(["k"]), store.get("k"), store.add("n", 1), store.add("n", 1)])

    visitor = TorchStore(troubles.append, find=box.find)
    visitor.visit(use)
    assert troubles == []
    assert seen == [False, True, "väl".encode(), 1, 2]
    # The training reads the same store, and has its own limits of time.
    assert box.store.get("k") == "väl".encode()
    assert box.store.timeout > dt.timedelta(seconds=2)
    visitor.visit(lambda store: seen.append(store.add("n", 1)))
    assert (visitor.generation, seen[-1]) == (1, 3)


def test_a_visit_does_not_wait_for_a_training_that_waits(box: Box):
    waiting = threading.Thread(target=lambda: box.store.get("late"))
    waiting.start()
    time.sleep(0.05)
    visitor = TorchStore(pytest.fail, find=box.find)
    try:
        visitor.visit(lambda store: store.set("ours", "1"))
        assert waiting.is_alive()
    finally:
        # A client on the network that waits takes nothing else.
        box.store.clone().set("late", b"1")
        waiting.join(20)


def test_a_server_that_is_gone_costs_no_stack_trace(capfd: pytest.CaptureFixture[str]):
    dist = pytest.importorskip("torch.distributed")
    server, troubles = Box(), list[str]()
    server.store = dist.TCPStore("127.0.0.1", 0, 1, True)
    port = server.store.port
    client = dist.TCPStore("127.0.0.1", port, is_master=False)
    near, far = (TorchStore(troubles.append, find=find) for find in (server.find, lambda: client))
    for visitor in (near, far):
        visitor.visit(lambda store: store.set("k", "1"))
    assert troubles == []
    server.store = None
    far.visit(lambda store: store.set("k", "1"))
    assert [text.split(":")[0] for text in troubles] == ["ConnectionRefusedError"]
    # Nothing of ours has kept the server, so that its port can be had again.
    dist.TCPStore("127.0.0.1", port, 1, True)
    assert "recvValue" not in capfd.readouterr().err


@pytest.mark.parametrize("use_libuv", [False, True])
def test_torchs_server_answers_what_shows_that_it_works(use_libuv: bool):
    dist = pytest.importorskip("torch.distributed")
    server = Box()
    server.store = dist.TCPStore("127.0.0.1", 0, 1, True, use_libuv=use_libuv)
    with socket.create_connection(("127.0.0.1", server.store.port), 20) as made:
        assert torch_store.ping(made)
    server.store = None


def test_a_stopped_server_holds_nobody_up(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch.distributed")
    monkeypatch.setattr(torch_store, "_PING_ANSWER_S", 0.1)
    troubles = list[str]()
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        # The kernel takes connections for it; a client of torch's would wait for ever.
        store = SimpleNamespace(host="127.0.0.1", port=nobody.getsockname()[1], clone=pytest.fail)
        visitor = TorchStore(troubles.append, find=lambda: store)
        visitor.visit(lambda _: pytest.fail("was asked"))
    assert troubles == ["TimeoutError: timed out"]
