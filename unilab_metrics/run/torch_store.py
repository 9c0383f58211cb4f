"""Short visits to the store of a training's torch.distributed, if it has initialised it.

torch is the training's: it is never imported here, only found. Nothing of it is kept between
two visits either, because a store that somebody still holds keeps its port. A visit is made of
operations that answer at once; a store that does not work, or is slow, is left alone for a
while. What cannot be bounded is an operation whose answer never comes, so a store on the
network is only asked if its port answers.
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
SLOW_S = 1.0
_PAUSE_PER_SECOND = 5.0
_CONNECT_S = 0.3
_ANSWER = timedelta(seconds=2)
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
        self.generation = 0
        """One more each time that the training has another store than before."""

    def is_there(self) -> bool:
        """Whether a visit would be made now; cheap, never raises."""
        if self._clock() < self._not_before_s:
            return False
        with suppress(Exception):
            return self._find() is not None
        return False

    def visit(self, use: Callable[[Store], None], *, is_needed: bool = True) -> None:
        """Call ``use`` with the store, if there is one and it is not left alone; never raises.
        What ``use`` raises is a failure of the store's. ``is_needed``: whether it is worth
        saying that the store does not help."""
        began_s = self._clock()
        if began_s < self._not_before_s:
            return
        try:
            found = self._find()
            if found is None:
                return
            if self._last() is not found:
                self._last = _weak(found)
                self.generation += 1
            use(_open(found))
        except Exception as error:  # noqa: BLE001 - whatever it is, the training must not notice
            why = f"{type(error).__name__}: {_first_line(error)}"
            longest_s = UNREACHABLE_PAUSE_S if isinstance(error, OSError) else LONGEST_PAUSE_S
            self._leave_alone(min(self._pause_s, longest_s), why if is_needed else "")
            return
        took_s = self._clock() - began_s
        if took_s > SLOW_S:
            pause_s = max(self._pause_s, _PAUSE_PER_SECOND * took_s)
            why = f"it took {took_s:.1f} s to answer"
            self._leave_alone(pause_s, why if is_needed else "")
        else:
            self._pause_s = FIRST_PAUSE_S

    def _leave_alone(self, pause_s: float, why: str) -> None:
        self._not_before_s = self._clock() + min(pause_s, LONGEST_PAUSE_S)
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
    socket.create_connection((host, port), _CONNECT_S).close()
    clone = getattr(store, "clone", None)
    if clone is None:
        return store
    own = clone()
    own.set_timeout(_ANSWER)
    return own


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
