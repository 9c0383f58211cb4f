"""What somebody has typed and the app has not heard yet: bounded, however much comes."""

from __future__ import annotations

import threading
from collections import deque

from textual.events import InputEvent, Key
from textual.message import Message

MOST_KEYS = 256
"""More than that nobody types ahead; the oldest are dropped."""
_CLOSES = frozenset({"ctrl+c", "ctrl+backslash"})


class WaitingInput:
    r"""Filled by the thread that reads a terminal, emptied by the one that runs the app. Ctrl+C and
    Ctrl+\ do not wait behind keys, which have no meaning any more. Of what is no key or click, like
    the terminal's size, the newest of each kind waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: deque[Message] = deque(maxlen=MOST_KEYS)
        self._others: dict[type[Message], Message] = {}

    def put(self, message: Message) -> bool:
        """Whether nothing else waited, so that somebody has to be told."""
        with self._lock:
            is_first = not self._keys and not self._others
            if isinstance(message, InputEvent):
                if isinstance(message, Key) and message.key in _CLOSES:
                    self._keys.clear()
                self._keys.append(message)
            else:
                self._others.pop(type(message), None)
                self._others[type(message)] = message
            return is_first

    def take(self, most: int) -> list[Message]:
        """The first ones; they wait no longer."""
        with self._lock:
            taken = list(self._others.values())
            self._others.clear()
            taken += [self._keys.popleft() for _ in range(min(most, len(self._keys)))]
            return taken

    def __bool__(self) -> bool:
        with self._lock:
            return bool(self._keys or self._others)
