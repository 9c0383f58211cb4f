"""Rank 0 and a rank of another node meet in torch's store."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stores_on_paper import Distributed, PaperStore, initialise

from unilab_metrics.run.meeting import far_ranks, store_rendezvous, torch_store
from unilab_metrics.run.meeting.far_ranks import FarRank
from unilab_metrics.run.meeting.finding import BusFinder
from unilab_metrics.run.meeting.store_rendezvous import StoreGuest, StoreHost
from unilab_metrics.run.meeting.torch_store import TorchStore, default_store
from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.places import runtime_directory, spool_candidates
from unilab_metrics.transport import keys, rendezvous, store_entries
from unilab_metrics.transport.rendezvous import ConnectionFile, DistantBus, bus_directory
from unilab_metrics.transport.routes import choose_route
from unilab_metrics.transport.store_entries import StoreNames

NAMES = StoreNames({}, 0)


class Meeting:
    """Rank 0 and rank 1, on one clock that the test moves."""

    def __init__(self, run_dir: Path, find: Callable[[], Any], monkeypatch: pytest.MonkeyPatch):
        self.now_s = 100.0
        self.run_dir = run_dir
        self.bus_dir = private_directory(bus_directory(run_dir))
        self.curve = keys.prepare_keys(self.bus_dir)
        self.troubles: list[str] = []
        # What the far node has of the run directory: nothing.
        monkeypatch.setattr(far_ranks, "seen_here", lambda _stored: None)
        monkeypatch.setattr(
            "unilab_metrics.run.meeting.store_rendezvous.seen_here", lambda _stored: None
        )
        clock = lambda: self.now_s  # noqa: E731
        self.host = StoreHost(NAMES, 4, self.visitor(find), clock=clock)
        self.new_guest = lambda rank, launch="far": StoreGuest(
            NAMES, rank, "learner", FarRank(launch, rank), self.visitor(find), clock=clock
        )
        self.guest = self.new_guest(1)
        self.listen(7000)

    def visitor(self, find: Callable[[], Any]) -> TorchStore:
        return TorchStore(self.troubles.append, find=find, clock=lambda: self.now_s)

    def listen(self, port: int, boot_id: str = "another") -> None:
        file = ConnectionFile(
            run_dir=str(self.run_dir),
            journal="0a" * 16,
            pid=port,
            started_unix_ns=port,
            boot_id=boot_id,
            host="node-0",
            ingest="ipc:///nowhere",
            announce="",
            fetch="",
            tcp_ingest=f"tcp://10.0.0.5:{port}",
            server_key=self.curve.public,
        )
        rendezvous.write(self.bus_dir, file)

    def turn(self, *guests: StoreGuest, times: int = 1) -> list[ConnectionFile | None]:
        found: list[ConnectionFile | None] = []
        for _ in range(times):
            self.now_s += 6.0
            self.host(self.run_dir)
            found = [guest() for guest in guests or (self.guest,)]
        return found

    def meets(self, *guests: StoreGuest) -> DistantBus:
        found = self.turn(*guests, times=3)
        assert all(isinstance(bus, DistantBus) for bus in found), self.troubles
        bus = found[-1]
        assert isinstance(bus, DistantBus)
        return bus


@pytest.fixture
def store() -> PaperStore:
    return PaperStore()


@pytest.fixture
def meeting(run_dir: Path, store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> Meeting:
    return Meeting(run_dir, lambda: store, monkeypatch)


def secrets_in(store: PaperStore, meeting: Meeting, *others: Path) -> list[str]:
    folder = keys.key_directory(meeting.bus_dir)
    paths = [*folder.glob("*.key"), *others]
    secrets = [msgspec.json.decode(path.read_bytes())["secret"] for path in paths]
    return [secret for secret in secrets if secret.encode() in b"".join(store.values.values())]


def test_a_rank_elsewhere_learns_the_way_and_is_let_in(meeting: Meeting, store: PaperStore):
    bus = meeting.meets()
    route = choose_route(bus, Path("/nowhere"), "publish")
    assert route.ingest == "tcp://10.0.0.5:7000"
    assert route.curve is not None
    assert route.curve.server == meeting.curve.public
    grant = keys.read_allowed(meeting.bus_dir).grants[route.curve.public]
    assert [grant.covers(rank) for rank in range(4)] == [False, True, False, False]
    assert meeting.troubles == []
    assert route.curve.origin.stat().st_mode & 0o777 == 0o600
    assert secrets_in(store, meeting, route.curve.origin) == []
    watch = keys.read_client(keys.key_path(meeting.bus_dir, "watch"), "watch")
    assert not any(watch.public.encode() in value for value in store.values.values())


def test_a_container_of_rank_0s_own_node_goes_the_same_way(meeting: Meeting):
    meeting.listen(7001, boot_id=boot_id())
    route = choose_route(meeting.meets(), Path("/nowhere"), "publish")
    assert route.ingest == "tcp://10.0.0.5:7001"
    assert route.curve is not None


def test_only_a_socket_that_is_there_is_a_way_on_the_node(meeting: Meeting, short_path: Path):
    meeting.listen(7001, boot_id=boot_id())
    path = short_path / "1.in"
    file = rendezvous.read(meeting.bus_dir)
    file = msgspec.structs.replace(file, ingest=f"ipc://{path}")

    def is_on_the_node() -> bool:
        return choose_route(file, meeting.bus_dir, "publish").curve is None

    assert not is_on_the_node()
    path.write_text("no socket")
    assert not is_on_the_node()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert is_on_the_node()


def test_nobody_is_sent_away_before_the_key_is_on_the_list(meeting: Meeting):
    meeting.host(meeting.run_dir)
    assert meeting.guest() is None
    assert len(keys.read_allowed(meeting.bus_dir).grants) == 2
    meeting.turn()
    assert len(keys.read_allowed(meeting.bus_dir).grants) == 3


def test_an_aggregator_that_comes_back_elsewhere_is_found_with_the_same_key(meeting: Meeting):
    meeting.meets()
    before = keys.allowed_path(meeting.bus_dir).read_text()
    meeting.listen(7001)
    assert meeting.meets().tcp_ingest == "tcp://10.0.0.5:7001"
    assert keys.allowed_path(meeting.bus_dir).read_text() == before


def test_a_process_started_again_shows_the_key_of_its_rank(meeting: Meeting):
    meeting.meets()
    before = keys.allowed_path(meeting.bus_dir).read_text()
    meeting.meets(meeting.new_guest(1))
    assert keys.allowed_path(meeting.bus_dir).read_text() == before


def test_a_new_server_key_needs_a_new_pair(meeting: Meeting):
    first = choose_route(meeting.meets(), Path(), "publish").curve
    for path in keys.key_directory(meeting.bus_dir).iterdir():
        path.unlink()
    meeting.curve = keys.prepare_keys(meeting.bus_dir)
    meeting.listen(7002)
    second = choose_route(meeting.meets(), Path(), "publish").curve
    assert first is not None
    assert second is not None
    assert second.public != first.public
    assert second.public in keys.read_allowed(meeting.bus_dir).grants


def test_a_key_that_somebody_commented_out_stays_out(meeting: Meeting):
    curve = choose_route(meeting.meets(), Path(), "publish").curve
    assert curve is not None
    path = keys.allowed_path(meeting.bus_dir)
    path.write_text(path.read_text().replace(f"publish {curve.public}", f"# {curve.public}"))
    again = meeting.new_guest(1)
    assert meeting.turn(again, times=3) == [None]
    assert any("keeps this key out" in text for text in meeting.troubles)
    assert curve.public not in keys.read_allowed(meeting.bus_dir).grants


def test_processes_that_die_between_two_operations_hold_up_nobody(
    meeting: Meeting, store: PaperStore
):
    for _ in range(3):
        store.add(NAMES.asked, 1)
    assert meeting.turn(times=20)[0] is not None
    # One of them was only slow.
    late = meeting.new_guest(2, "late")
    number = store.add(NAMES.asked, 0)
    meeting.turn(late)
    store.values[NAMES.key(2)] = store.values.pop(NAMES.key(number + 1))
    meeting.turn(late, times=20)
    assert store.values[NAMES.answer(2)] == b"ok"


def test_garbage_in_the_store_is_answered_once_and_harms_nobody(
    meeting: Meeting, store: PaperStore
):
    for value in (b"", b"\xff" * 100_000, b"[" * 5000, b'{"version":9}'):
        store.values[NAMES.key(store.add(NAMES.asked, 1))] = value
    bus = meeting.turn(times=10)[0]
    assert isinstance(bus, DistantBus)
    assert len(meeting.troubles) == 1
    store.values[NAMES.bus] = b"\x00"
    fresh = meeting.new_guest(2)
    assert fresh() is None
    assert len(meeting.troubles) == 2
    assert len(keys.read_allowed(meeting.bus_dir).grants) == 3


def test_one_rank_has_a_bounded_number_of_keys(meeting: Meeting, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_rendezvous, "_MOST_KEYS_OF_A_RANK", 3)
    guests = [meeting.new_guest(1, f"far{n}") for n in range(5)]
    meeting.turn(*guests, times=4)
    assert len(keys.read_allowed(meeting.bus_dir).grants) == 2 + 3


def test_a_store_that_is_made_anew_is_told_everything_again(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    torch = Distributed()
    meeting = Meeting(run_dir, lambda: torch.store, monkeypatch)
    assert meeting.turn(times=3) == [None]
    torch.store = PaperStore()
    meeting.meets()
    torch.store = None
    assert isinstance(meeting.turn()[0], DistantBus)
    torch.store = PaperStore()
    assert meeting.meets().tcp_ingest == "tcp://10.0.0.5:7000"
    meeting.meets(meeting.new_guest(2))
    assert meeting.troubles == []


def test_a_run_that_listens_on_its_node_only_puts_nothing_into_the_store(
    meeting: Meeting, store: PaperStore
):
    file = rendezvous.read(meeting.bus_dir)
    rendezvous.write(meeting.bus_dir, msgspec.structs.replace(file, tcp_ingest="", server_key=""))
    assert meeting.turn(times=3) == [None]
    assert set(store.calls) == {"check"}


def test_ranks_whose_training_has_let_its_store_go_meet_all_the_same(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    class Server(PaperStore):
        """On the network: each client is an object of its own."""

        def __init__(self, server: Server | None = None) -> None:
            super().__init__()
            self.host, self.port = "10.0.0.5", 29500
            if server is not None:
                self.values = server.values

        def clone(self) -> Server:
            return Server(self)

        def set_timeout(self, limit: object) -> None:
            del limit

    class Connected:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    is_up = [True]

    def connect(address: tuple[str, int], timeout_s: float) -> Connected:
        del address, timeout_s
        if not is_up[0]:
            raise ConnectionRefusedError
        return Connected()

    monkeypatch.setattr(torch_store.socket, "create_connection", connect)
    monkeypatch.setattr(torch_store, "ping", lambda _: True)
    torch = Distributed(Server())
    meeting = Meeting(run_dir, lambda: torch.store, monkeypatch)
    assert meeting.turn() == [None]
    torch.store = None
    assert isinstance(meeting.turn(times=3)[0], DistantBus)
    # When its server has ended too, that is no trouble of anybody's.
    is_up[0] = False
    meeting.turn(times=3)
    assert meeting.troubles == []


def test_a_training_without_torch_has_no_store(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    assert default_store() is None
    torch = initialise(monkeypatch)
    assert default_store() is None
    torch.store = PaperStore()
    assert default_store() is torch.store
    del torch.distributed_c10d
    assert default_store() is None


def test_another_process_of_the_rank_takes_what_the_first_has_left(meeting: Meeting):
    collector = BusFinder(None, "far", FarRank("far", 1).find)
    assert collector() is None
    bus = meeting.meets()
    assert collector() == bus
    # Another rank of the node has not been admitted.
    assert BusFinder(None, "far", FarRank("far", 2).find)() is None


def test_keys_of_launches_that_have_nothing_left_are_removed(meeting: Meeting):
    meeting.meets()
    busy = spool_candidates()[0] / "busy"
    (busy / "spool").mkdir(parents=True)
    meeting.meets(meeting.new_guest(1, "busy"))
    meeting.meets(meeting.new_guest(1, "next"))
    left = {path.name for path in runtime_directory().glob("far-*")}
    assert left == {"far-busy", "far-next"}


def test_a_file_left_over_on_this_node_does_not_hide_what_the_store_says(run_dir: Path):
    now_s = [0.0]
    private_directory(bus_directory(run_dir))
    old = ConnectionFile(
        run_dir=str(run_dir), journal="0b" * 16, pid=1, started_unix_ns=1, boot_id="b",
        host="h", ingest="ipc:///nowhere", announce="", fetch="",
    )  # fmt: skip
    rendezvous.write(bus_directory(run_dir), old)
    real = msgspec.structs.replace(old, journal="0c" * 16, run_dir="/elsewhere")
    finder = BusFinder(run_dir, "far", lambda: real, clock=lambda: now_s[0])
    assert finder() == old
    for _ in range(6):
        now_s[0] += 1.0
        last = finder()
    assert last == real
    # A short search much later trusts the file again, which is the rule.
    other = BusFinder(run_dir, "far", lambda: real, clock=lambda: now_s[0])
    for _ in range(6):
        now_s[0] += 60.0
        assert other() == old


def test_a_run_directory_that_can_be_seen_here_needs_no_key(
    meeting: Meeting, store: PaperStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()
    finder = BusFinder(None, "far", meeting.guest)
    meeting.host(meeting.run_dir)
    assert finder() == rendezvous.read(meeting.bus_dir)
    assert finder.run_dir == meeting.run_dir
    assert store.calls.count("add") == 0
    assert len(keys.read_allowed(meeting.bus_dir).grants) == 2
    # Another run in a directory of that name is not the one.
    file = rendezvous.read(meeting.bus_dir)
    told = store_entries.stored_of(msgspec.structs.replace(file, journal="0d" * 16))
    assert far_ranks.seen_here(told) is None
