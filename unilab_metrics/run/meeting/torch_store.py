"""Short visits to the store of a training's torch.distributed, if it has initialised it.

torch is the training's: it is never imported here, only found. Its store is not kept between two
visits, because one that somebody still holds keeps its port; what is kept is a client of our own,
which goes on when the training has let its store go and the server is still there, as torchrun's
is. A visit is made of operations that answer at once; a store that does not work, or is slow, is
left alone for a while, which is shorter as long as something depends on it. What cannot be bounded
is an operation whose answer never comes, so a store on the network is only asked if its server has
just answered another one: a stopped process, too, has a port that can be connected to.
"""

from __future__ import annotations

import socket
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
UNREACHABLE_PAUSE_S = 5.0
HASTE_PAUSE_S = 0.5
"""For who closes, and has little time left."""
SLOW_S = 1.0
_PAUSE_PER_SECOND = 5.0
_NEEDED_PAUSE_PER_SECOND = 1.0
_CONNECT_S = 0.3
_ANSWER = timedelta(seconds=2)
_PING_ANSWER_S = 1.0
_PINGED_FROM = (2, 4)
_VALIDATE, _PING = b"\x00\xce\xf7\x85\x3c", b"\x0d"
"""How a client of torch's begins: a magic number, then a number that comes back."""
_NONCE = b"unil"
_MOST_WRAPPINGS = 32


class Store(Protocol):
    """What we use of torch's stores; ``get`` only after ``check``, since it waits."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all of them are there."""
        ...

    def get(self, key: str, /) -> bytes:
        """The value."""
        ...

    def set(self, key: str, value: str, /) -> None:
        """Put it there."""
        ...

    def add(self, key: str, amount: int, /) -> int:
        """Raise a counter; its new value."""
        ...


class TorchStore:
    """Owned by one thread, the shipper's."""

    def __init__(
        self,
        report: Callable[[str], None],
        *,
        find: Callable[[], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``report``: is told each time that the store did not help, in words. ``find``: as
        :func:`default_store`."""
        self._report = report
        self._clock = clock
        self._find = find
        self._last: Callable[[], Any] = no_store
        self._pause_s = FIRST_PAUSE_S
        self._not_before_s = 0.0
        self._client: Any = None
        self.is_in_haste = False
        self.generation = 0
        """One more each time that the training has another store than before."""

    def hurry(self) -> None:
        """The end is near: from now on the store is not left alone for long."""
        self.is_in_haste = True
        self._not_before_s = min(self._not_before_s, self._clock() + HASTE_PAUSE_S)

    def is_there(self) -> bool:
        """Whether a visit would be made now; cheap, never raises."""
        if self._clock() < self._not_before_s:
            return False
        with suppress(Exception):
            return self._client is not None or self._find() is not None
        return False

    def get_to_know(self) -> None:
        """Be able to visit it when the training has let it go; as :meth:`visit`."""
        if self._client is None:
            self.visit(_look_around)

    def visit(self, use: Callable[[Store], None], *, is_needed: bool = True) -> None:
        """Call ``use`` with the store, if there is one and it is not left alone; never raises.
        What ``use`` raises is a failure of the store's. ``is_needed``: whether something depends
        on it, so that it is worth saying that the store does not help."""
        began_s = self._clock()
        if began_s < self._not_before_s:
            return
        try:
            opened = self._opened()
            if opened is None:
                return
            use(opened)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training must not notice
            why = f"{type(error).__name__}: {_first_line(error)}"
            longest_s = UNREACHABLE_PAUSE_S if isinstance(error, OSError) else LONGEST_PAUSE_S
            self._leave_alone(min(self._pause_s, longest_s), why if is_needed else "")
            return
        took_s = self._clock() - began_s
        if took_s > SLOW_S:
            # Much of that may be our own waiting for a processor.
            per_second = _NEEDED_PAUSE_PER_SECOND if is_needed else _PAUSE_PER_SECOND
            pause_s = max(self._pause_s, per_second * took_s)
            why = f"it took {took_s:.1f} s to answer"
            self._leave_alone(pause_s, why if is_needed else "")
        else:
            self._pause_s = FIRST_PAUSE_S

    def _opened(self) -> Store | None:
        found = self._find()
        if found is None:
            return self._opened_again()
        if self._last() is not found:
            self._last = _weak(found)
            self._client = None
            self.generation += 1
        opened = _open(found)
        self._client = opened if opened is not found else None
        return opened

    def _opened_again(self) -> Store | None:
        """What was the training's store, if its server outlives it."""
        if self._client is None:
            return None
        try:
            self._client = _open(self._client)
        except ConnectionRefusedError:
            # The training has ended it; that is no failure.
            self._client = None
        return self._client

    def _leave_alone(self, pause_s: float, why: str) -> None:
        longest_s = HASTE_PAUSE_S if self.is_in_haste else LONGEST_PAUSE_S
        self._not_before_s = self._clock() + min(pause_s, longest_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        if why:
            self._report(why)


def default_store() -> Any:
    """The store that the training's processes share, ``None`` while there is none."""
    distributed = sys.modules.get("torch.distributed")
    # While torch is being imported, not everything is there yet.
    is_initialized = getattr(distributed, "is_initialized", None)
    inner = getattr(distributed, "distributed_c10d", None)
    get = getattr(inner, "_get_default_store", None)
    if is_initialized is None or get is None or not is_initialized():
        return None
    try:
        return get()
    except (ValueError, KeyError):
        # It was destroyed between the two.
        return None


def _open(store: Any) -> Store:
    """A client of our own where the store is on the network: one client does one thing at a
    time, and the training's may wait in it for minutes. The others let others in meanwhile."""
    base = store
    for _ in range(_MOST_WRAPPINGS):
        inner = getattr(base, "underlying_store", None)
        if inner is None:
            break
        base = inner
    host, port = getattr(base, "host", None), getattr(base, "port", None)
    if not isinstance(host, str) or not isinstance(port, int):
        return store
    # A server that is gone costs minutes otherwise, and torch prints a stack trace.
    with socket.create_connection((host, port), _CONNECT_S) as made:
        if _torch_version() >= _PINGED_FROM:
            ping(made)
    clone = getattr(store, "clone", None)
    if clone is None:
        return store
    own = clone()
    own.set_timeout(_ANSWER)
    return own


def ping(made: socket.socket) -> bool:
    """Whether the server at the other end is torch's and at work. One that does not understand
    closes the connection. Raises ``TimeoutError`` for one that is there and does nothing."""
    made.settimeout(_PING_ANSWER_S)
    with suppress(ConnectionError):
        made.sendall(_VALIDATE + _PING + _NONCE)
        return made.recv(len(_NONCE)) == _NONCE
    return False


def _torch_version() -> tuple[int, ...]:
    version = str(getattr(sys.modules.get("torch"), "__version__", ""))
    numbers = version.split(".")[:2]
    return tuple(int(number) for number in numbers) if all(map(str.isdigit, numbers)) else ()


def _look_around(store: Store) -> None:
    del store


def _weak(found: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(found)
    except TypeError:
        # Not to be held on to; then it is a new one each time, which costs a few operations.
        return no_store


def no_store() -> None:
    """For a training whose store is not to be used."""


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else ""
