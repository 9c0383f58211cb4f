"""Fork: spools of this process are locked before it, and inactive in the child.

The hooks are registered once per process, because Python cannot unregister them.
"""

from __future__ import annotations

import os
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


_watched: list[ForkAware] = []
_forking: list[ForkAware] = []


def watch(thing: ForkAware) -> None:
    """Tell ``thing`` of forks until :func:`forget`."""
    _watched.append(thing)


def forget(thing: ForkAware) -> None:
    """Tell ``thing`` of forks no longer; unknown ones are ignored."""
    if thing in _watched:
        _watched.remove(thing)


def _before() -> None:
    _forking[:] = _watched
    for thing in _forking:
        thing.before_fork()


def _in_parent() -> None:
    for thing in reversed(_forking):
        thing.after_fork_in_parent()
    _forking.clear()


def _in_child() -> None:
    for thing in _forking:
        thing.after_fork_in_child()
    _forking.clear()
    _watched.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
