"""What the lease of a spool says: whose it is, and to which run directory it belongs.

The path alone does not tell a run that was removed from one whose disk is not mounted now, or
from another that has taken its place.
"""

from __future__ import annotations

import os

import msgspec

from unilab_metrics.storage.path_text import path_of


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory: its absolute path (see ``path_text``), and what the system called it when it
    was there."""

    path: str
    device: int
    inode: int

    def was_removed(self) -> bool:
        """Whether its place is there and it is not, nor anything else. Moved is removed here."""
        path = path_of(self.path)
        if not path.is_absolute() or os.path.lexists(path):
            return False
        place = next((parent for parent in path.parents if parent.is_dir()), None)
        try:
            # Another device: what it lay on is not mounted.
            return place is not None and place.stat().st_dev == self.device
        except OSError:
            return False


class SpoolOwner(msgspec.Struct, frozen=True, kw_only=True):
    """``run`` is ``None`` until the process has found its run."""

    pid: int
    run: RunFile | None = None

    def encode(self) -> bytes:
        """As the lease holds it."""
        return msgspec.json.encode(self)


_decoder = msgspec.json.Decoder(SpoolOwner)


def decode_owner(payload: bytes) -> SpoolOwner | None:
    """``None`` for what cannot be read, as after a crash in the middle of writing it."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
