"""Finding a run through torch.distributed's store, without a shared file system.

Both sides belong to the shipper's thread, never wait and never raise.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.run.meeting.far_ranks import FarRank, seen_here
from unilab_metrics.run.meeting.torch_store import Store, TorchStore
from unilab_metrics.transport import allow_list, keys, rendezvous
from unilab_metrics.transport.allow_list import PUBLISH
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_metrics.transport.store_entries import (
    ADMITTED,
    MAX_ASKED,
    StoredBus,
    StoredKey,
    StoreEntryError,
    StoreNames,
    decode_bus,
    decode_key,
    encode,
    read_answer,
    stored_of,
    word,
)

SEARCH_INTERVAL_S = 0.25
CALM_INTERVAL_S = 1.0
CALM_AFTER_S = 30.0
"""After that a run is not expected at any moment."""
ASK_AGAIN_S = 60.0
HOST_INTERVAL_S = 0.2
"""Between two turns at least; rank 0 is called once a second, and more often in its first half
minute and while it closes."""
QUIET_INTERVAL_S = 5.0
QUIET_AFTER_S = 120.0
_MOST_A_TURN = 64
_AHEAD = 8
_MOST_HOLES = 64
_MOST_KEYS_OF_A_RANK = 16


class StoreHost:
    """Rank 0's side: says where the aggregator listens, and admits who asks."""

    def __init__(
        self,
        names: StoreNames,
        world_size: int,
        store: TorchStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._world_size = world_size
        self._store = store
        self._clock = clock
        self._generation = 0
        self._told: StoredBus | None = None
        self._turn_at_s = 0.0
        self._news_s = clock()
        self._queue = _Queue(names)
        self._keys_of: dict[int, set[str]] = {}

    def __call__(self, run_dir: Path, *, hurry: bool = False) -> None:
        """A turn, if it is time for one. ``hurry``: rank 0 closes."""
        if hurry:
            self._store.hurry()
        now_s = self._clock()
        if now_s < self._turn_at_s or not self._store.is_there():
            return
        is_quiet = now_s - self._news_s > QUIET_AFTER_S and not hurry
        self._turn_at_s = now_s + (QUIET_INTERVAL_S if is_quiet else HOST_INTERVAL_S)
        try:
            file = rendezvous.read(bus_directory(run_dir))
        except ConnectionFileError:
            self._store.get_to_know()
            return
        if file.tcp_ingest:
            self._store.visit(partial(self._serve, stored_of(file), bus_directory(run_dir)))

    def _serve(self, stored: StoredBus, bus_dir: Path, store: Store) -> None:
        if self._generation != self._store.generation:
            self._generation = self._store.generation
            self._told = None
            self._queue = _Queue(self._names)
        if stored != self._told:
            store.set(self._names.bus, encode(stored))
            self._told = stored
            self._news_s = self._clock()
        arrived = self._queue.take(store)
        if arrived:
            self._news_s = self._clock()
            self._admit(store, bus_dir, arrived)

    def _admit(self, store: Store, bus_dir: Path, arrived: dict[int, bytes]) -> None:
        answers: dict[int, str] = {}
        asked: dict[int, StoredKey] = {}
        for number, data in arrived.items():
            try:
                asked[number] = self._judge(decode_key(data, self._world_size))
            except StoreEntryError as error:
                answers[number] = f"refused: {error}"
        lines = {
            key.public: allow_list.render(
                PUBLISH,
                key.public,
                ranks=[key.rank],
                name=f"rank {key.rank} ({key.role}) on {key.host}, through torch's store",
            )
            for key in asked.values()
        }
        admitted = keys.admit(bus_dir, lines) if lines else frozenset[str]()
        for number, key in asked.items():
            refusal = "the run's allow-list keeps this key out"
            answers[number] = ADMITTED.decode() if key.public in admitted else refusal
        for number, answer in answers.items():
            store.set(self._names.answer(number), answer)
        self._queue.done(arrived)
        refused = next((a for a in answers.values() if a != ADMITTED.decode()), "")
        if refused:
            raise StoreEntryError(refused)

    def _judge(self, key: StoredKey) -> StoredKey:
        known = self._keys_of.setdefault(key.rank, set())
        if key.public not in known and len(known) >= _MOST_KEYS_OF_A_RANK:
            raise StoreEntryError(f"more than {_MOST_KEYS_OF_A_RANK} keys for rank {key.rank}")
        known.add(key.public)
        return key


class _Queue:
    """The keys that others have put into the store, each under a number of its own."""

    def __init__(self, names: StoreNames) -> None:
        self._names = names
        self._next = 1
        self._looks = 0
        self._holes: list[int] = []
        """Numbers that were drawn by processes which then died, or were very slow."""

    def take(self, store: Store) -> dict[int, bytes]:
        """What has come; it comes again until it is :meth:`done`."""
        arrived: dict[int, bytes] = {}
        for number in range(self._next, min(self._next + _MOST_A_TURN, MAX_ASKED)):
            if not self._look(store, number, arrived):
                break
        self._looks += 1
        if self._holes:
            self._look(store, self._holes[self._looks % len(self._holes)], arrived)
        if not arrived:
            self._look(store, self._next + 1 + self._looks % _AHEAD, arrived)
        return arrived

    def done(self, numbers: dict[int, bytes]) -> None:
        """These have been answered."""
        beyond = max([*numbers, self._next - 1]) + 1
        passed_over = set(range(self._next, beyond)).difference(numbers)
        left = set(self._holes).difference(numbers)
        self._holes = sorted(left | passed_over)[-_MOST_HOLES:]
        self._next = beyond

    def _look(self, store: Store, number: int, arrived: dict[int, bytes]) -> bool:
        name = self._names.key(number)
        if not store.check([name]):
            return False
        arrived[number] = store.get(name)
        return True


class StoreGuest:
    """The side of a rank whose node does not have the run: looks for it, shows its key."""

    def __init__(
        self,
        names: StoreNames,
        rank: int,
        role: str,
        far: FarRank,
        store: TorchStore,
        *,
        known: ConnectionFile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``known``: the way that was right for this rank's last process, if anybody knows."""
        self._names = names
        self._rank = rank
        self._role = role
        self._far = far
        self._store = store
        self._clock = clock
        self._ask_at_s = 0.0
        self._began_s = clock()
        self._stored: StoredBus | None = None
        self._found = known
        self._generation = 0
        self._number = 0
        self._asked_s = 0.0
        self._public = ""
        self._admitted_to = ""

    def __call__(self) -> ConnectionFile | None:
        """Where the aggregator is, as far as it is known."""
        now_s = self._clock()
        if now_s >= self._ask_at_s:
            is_early = self._store.is_in_haste or now_s - self._began_s <= CALM_AFTER_S
            is_calm = self._stored is not None or not is_early
            self._ask_at_s = now_s + (CALM_INTERVAL_S if is_calm else SEARCH_INTERVAL_S)
            self._store.visit(self._ask, is_needed=self._found is None)
        return self._found

    def _ask(self, store: Store) -> None:
        if self._generation != self._store.generation:
            self._generation = self._store.generation
            self._number = 0
        if not store.check([self._names.bus]):
            return
        stored = decode_bus(store.get(self._names.bus))
        if stored == self._stored and self._found is not None:
            return
        if seen_here(stored) is None and not self._is_admitted(store, stored):
            return
        self._far.leave(stored)
        self._stored, self._found = stored, self._far.way(stored)

    def _is_admitted(self, store: Store, stored: StoredBus) -> bool:
        if self._admitted_to == stored.server_key:
            return True
        now_s = self._clock()
        public = self._far.own_key(stored.server_key)
        if not self._number or public != self._public or now_s - self._asked_s > ASK_AGAIN_S:
            self._public, self._asked_s = public, now_s
            key = StoredKey(
                rank=self._rank,
                role=word(self._role),
                host=word(platform.node()),
                public=public,
            )
            self._number = store.add(self._names.asked, 1)
            store.set(self._names.key(self._number), encode(key))
        if not store.check([self._names.answer(self._number)]):
            return False
        refusal = read_answer(store.get(self._names.answer(self._number)))
        if refusal:
            raise StoreEntryError(refusal)
        self._admitted_to = stored.server_key
        return True
