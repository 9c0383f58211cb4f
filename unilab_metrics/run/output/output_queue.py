"""What has been read and is not written yet: bounded, and what does not fit is counted."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

MOST_BYTES = 8 * 1024 * 1024
_PATIENCE_S = 0.1


class Output(NamedTuple):
    """Bytes for ``target``. ``lost_bytes``: so many before them were dropped."""

    data: bytes
    target: str
    lost_bytes: int = 0


class OutputQueue:
    """From one thread to another."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._items: deque[Output] = deque()
        self._held_bytes = 0
        self._most_bytes = most_bytes
        self._lost_bytes = 0
        self._is_slow = False
        self._is_over = False
        self._is_closed = False
        self._may_wait = True
        self._changed = threading.Condition()

    def put(self, data: bytes, target: str, *, wait: bool = False) -> None:
        """Add it. Where there is no room: ``wait`` until there is, else for 0.1 s, then drop it;
        one that was too slow once is not waited for until it is half empty."""
        with self._changed:
            if not wait and not self._is_slow:
                self._changed.wait_for(lambda: self._has_room(len(data)), _PATIENCE_S)
            elif wait:
                self._changed.wait_for(lambda: self._has_room(len(data)) or not self._may_wait)
            if self._is_closed:
                return
            if not self._has_room(len(data)):
                self._is_slow = True
                self._lost_bytes += len(data)
                return
            self._items.append(Output(data, target, self._lost_bytes))
            self._lost_bytes = 0
            self._held_bytes += len(data)
            self._changed.notify_all()

    def take(self) -> Output | None:
        """The next; ``None`` at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_over or self._is_closed)
            if not self._items or self._is_closed:
                lost_bytes, self._lost_bytes = self._lost_bytes, 0
                return Output(b"", "", lost_bytes) if lost_bytes and not self._is_closed else None
            item = self._items.popleft()
            self._held_bytes -= len(item.data)
            if self._held_bytes <= self._most_bytes // 2:
                self._is_slow = False
            self._changed.notify_all()
            return item

    def let_go(self) -> None:
        """Whoever waits in :meth:`put`, and all who will, waits no longer than 0.1 s."""
        with self._changed:
            self._may_wait = False
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more; what is in it and comes is forgotten."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._held_bytes = 0
            self._changed.notify_all()

    def _has_room(self, wanted_bytes: int) -> bool:
        return (
            self._is_closed
            or not self._items
            or self._held_bytes + wanted_bytes <= self._most_bytes
        )
