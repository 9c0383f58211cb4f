"""Stores as torch.distributed has them, without torch; some of them do not work."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import pytest


class PaperStore:
    """``calls``: names of the operations so far."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.calls: list[str] = []

    def check(self, keys: list[str]) -> bool:
        self.calls.append("check")
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        self.calls.append("get")
        # A real one would wait for minutes.
        return self.values[key]

    def set(self, key: str, value: str) -> None:
        self.calls.append("set")
        self.values[key] = value.encode()

    def add(self, key: str, amount: int) -> int:
        self.calls.append("add")
        self.values[key] = str(int(self.values.get(key, b"0")) + amount).encode()
        return int(self.values[key])


class RaisingStore(PaperStore):
    def check(self, keys: list[str]) -> bool:
        self.calls.append("check")
        raise RuntimeError("the store is gone\nand here comes a stack trace")

    def set(self, key: str, value: str) -> None:
        self.check([key])


class HangingStore(PaperStore):
    """Answers when ``free`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.asked = threading.Event()

    def check(self, keys: list[str]) -> bool:
        self.asked.set()
        self.free.wait(60)
        return super().check(keys)

    def set(self, key: str, value: str) -> None:
        self.check([key])
        super().set(key, value)


class Distributed(ModuleType):
    """Stands in for ``torch.distributed``; ``store`` is ``None`` while it is not initialised."""

    def __init__(self, store: Any = None) -> None:
        super().__init__("torch.distributed")
        self.store = store
        self.distributed_c10d = self

    def is_initialized(self) -> bool:
        return self.store is not None

    def _get_default_store(self) -> Any:
        if self.store is None:
            raise ValueError("Default process group has not been initialized")
        return self.store


def initialise(patch: pytest.MonkeyPatch, store: Any = None) -> Distributed:
    """Have the training import torch.distributed."""
    made = Distributed(store)
    patch.setitem(sys.modules, "torch.distributed", made)
    return made
