"""Going on although the system has run out of something: descriptors, or a file's patience."""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from unilab_metrics.aggregate.process_log import say
from unilab_metrics.errors import StorageError, why
from unilab_metrics.said_once import SaidOnce, cause_of


class Endurance:
    """Does what may fail now and is done again soon; says so once until it works again. Owned
    by the aggregator's main thread."""

    def __init__(self) -> None:
        self._said: dict[str, SaidOnce] = {}

    def attempt(self, what: str, work: Callable[[], object]) -> bool:
        """Whether ``work`` got through. An ``OSError`` or ``StorageError`` of it ends nothing."""
        try:
            work()
        except (OSError, StorageError) as error:
            said = self._said.setdefault(what, SaidOnce())
            _say_if(said.fails(cause_of(error), f"{what}: {error}; tried again"))
            return False
        if what in self._said:
            _say_if(self._said[what].works(f"{what}: works again"))
        return True


def _say_if(text: str) -> None:
    if text:
        say(text)


@contextmanager
def needing(path: Path) -> Generator[None, None, None]:
    """What cannot be done without: an ``OSError`` becomes a ``StorageError``, which ends the
    process with one line."""
    try:
        yield
    except OSError as error:
        raise StorageError(error.filename or path, why(error)) from error


def raise_descriptor_limit() -> None:
    """As many descriptors as this process may have: every source and every viewer takes one,
    and libzmq's thread spins while it has none for a connection that waits."""
    with suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
