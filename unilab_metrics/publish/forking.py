"""Fork: spools of this process are locked before it, and inactive in the child.

Also the start of a helper and a fork exclude each other: who starts one waits until a pipe is
closed by the exec of its child, and a copy of this process would hold that pipe open as long as
it lives. The hooks are registered once per process, because Python cannot unregister them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class ForkAware(Protocol):
    """What is told of each fork."""

    def before_fork(self) -> None:
        """The process is about to be copied; called by the thread that forks."""
        ...

    def after_fork_in_parent(self) -> None:
        """The copy is made; the same thread."""
        ...

    def after_fork_in_child(self) -> None:
        """The same thread, now the only one of the copy."""
        ...


FORKED_TEXT = (
    "this process was forked from one that publishes metrics; nothing is logged here until it "
    "calls connect()"
)
_START_S = 1.0
_watched: list[ForkAware] = []
_forking: dict[int, list[ForkAware]] = {}
"""What each thread that is between the hooks of a fork has told: while a start hangs, nothing keeps
several of them apart."""


def watch(thing: ForkAware) -> None:
    """Tell ``thing`` of forks until :func:`forget`."""
    _watched.append(thing)


def forget(thing: ForkAware) -> None:
    """Tell ``thing`` of forks no longer; unknown ones are ignored."""
    if thing in _watched:
        _watched.remove(thing)


@contextmanager
def unforked() -> Generator[None, None, None]:
    """Nobody forks this process meanwhile; for the few milliseconds in which a thread starts
    a helper. Within it, a fork by the same thread does not wait."""
    with _Starting.lock:
        _Starting.number += 1
        yield


class _Starting:
    lock = threading.RLock()
    number = 0
    hanging = -1
    """The number of the start for which a fork has waited in vain."""
    held_by: set[int] = set()  # noqa: RUF012 (threads that are between the hooks of a fork)


def _before() -> None:
    # A start that hangs must not stop a training for ever, nor each of its forks for a while.
    number = _Starting.number
    if _Starting.lock.acquire(timeout=0 if _Starting.hanging == number else _START_S):
        _Starting.held_by.add(threading.get_ident())
    else:
        _Starting.hanging = number
    told = _forking[threading.get_ident()] = list(_watched)
    for thing in told:
        thing.before_fork()


def _in_parent() -> None:
    me = threading.get_ident()
    for thing in reversed(_forking.pop(me, [])):
        thing.after_fork_in_parent()
    if me in _Starting.held_by:
        _Starting.held_by.discard(me)
        _Starting.lock.release()


def _in_child() -> None:
    _Starting.lock = threading.RLock()
    _Starting.held_by.clear()
    for thing in _forking.get(threading.get_ident(), []):
        thing.after_fork_in_child()
    _forking.clear()
    _watched.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
