"""What a writer asks of a backend. One process and one thread own a backend."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unilab_metrics.errors import StorageError

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord


_LASTING = frozenset({
    errno.EACCES, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR,
    errno.ENXIO, errno.EPERM, errno.EROFS,
})  # fmt: skip


class BackendError(StorageError):
    """A backend cannot take data now; nothing was lost. Facts: ``path``, ``reason``."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)

    @property
    def is_lasting(self) -> bool:
        """Whether somebody must see to it: a moment's wait will not help."""
        error: BaseException | None = self
        while error is not None:
            if isinstance(error, OSError) and error.errno in _LASTING:
                return True
            error = error.__cause__
        return False


class Backend(Protocol):
    """A place in which every update is persisted once.

    The cursor lies inside what the backend wrote: after any kill it goes on from there, and
    what it had written beyond is not seen by readers.
    """

    name: str

    @property
    def update(self) -> int:
        """Last update sequence that the backend holds."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Taken by :meth:`write` and not handed over by :meth:`flush` yet."""
        ...

    def open(self, journal: str = "") -> int:
        """Finds the cursor and returns it: the history goes on after this update sequence.

        ``journal``: hex id of the history, if known; a cursor of another one does not count.
        Raises :class:`BackendError`.
        """
        ...

    def write(self, records: Sequence[HistoryRecord]) -> None:
        """Takes the next records. They are visible after :meth:`flush`."""
        ...

    def flush(self) -> None:
        """Makes everything taken visible and moves the cursor.

        Raises :class:`BackendError`; the next call tries the same again.
        """
        ...

    def not_written(self) -> dict[str, int]:
        """What was passed over since :meth:`open` although it was data, counted by kind."""
        ...

    def close(self) -> None:
        """Flushes and ends. Raises :class:`BackendError`; a second call does nothing."""
        ...
