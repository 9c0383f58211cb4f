"""A directory that is held open, so that its removal is told from its being moved."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from unilab_metrics.storage.descriptors import Held, out_of_the_way

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class HeldDirectory:
    """Nothing at first, then the first directory that could be opened. Owned by one thread."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._held: Held | None = None

    def hold(self, path: Path) -> bool:
        """Whether it has just been opened; false if one is held already or there is none."""
        if self.path is not None:
            return False
        try:
            self._held = Held(out_of_the_way(os.open(path, _FLAGS)))
        except OSError:
            return False
        self.path = path
        return True

    @property
    def is_removed(self) -> bool:
        """Whether no name leads to the directory any more; false if that cannot be told."""
        if self._held is None:
            return False
        try:
            status = os.fstat(self._held.fd)
        except OSError as error:
            # A network file system no longer knows it.
            return error.errno == errno.ESTALE
        return self._held.is_ours and status.st_nlink == 0

    @property
    def file(self) -> tuple[int, int]:
        """Device and inode of what is held."""
        return (0, 0) if self._held is None else self._held.file

    def close(self) -> None:
        """Hold nothing any more; idempotent."""
        if self._held is not None:
            self._held.close()
