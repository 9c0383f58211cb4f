"""What a file system can do: spools and locks need a local one, keys one that keeps modes."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_LOCAL_FILESYSTEMS = frozenset({
    "apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "nilfs2",
    "overlay", "ramfs", "reiserfs", "tmpfs", "ufs", "xfs", "zfs",
})  # fmt: skip
_MOUNTS_FILE = Path("/proc/self/mountinfo")


def is_local_filesystem(path: Path) -> bool:
    """Whether ``path`` lies on a file system of a known local kind.

    Without Linux's mount table the answer is no below ``/Volumes``, ``/net`` and
    ``/Network`` and yes elsewhere.
    """
    resolved = Path(os.path.realpath(path))
    try:
        mounts = _MOUNTS_FILE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return resolved.parts[1:2] not in (("Volumes",), ("net",), ("Network",))
    return mounted_kind(mounts, resolved) in _LOCAL_FILESYSTEMS


def kind_of(path: Path) -> str:
    """The kind of the file system that ``path`` lies on; empty where the system hides it."""
    try:
        mounts = _MOUNTS_FILE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return mounted_kind(mounts, Path(os.path.realpath(path)))


def keeps_modes(directory: Path) -> bool:
    """Whether a file there can be private at all: some file systems show one mode for all.

    Tried with a file that is removed again; where none can be made, the answer is yes.
    """
    probe = directory / f".mode.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(probe, flags, 0o600)
    except OSError:
        return True
    try:
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o600)
        return not os.fstat(fd).st_mode & 0o077
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            probe.unlink()


def mounted_kind(mounts: str, path: Path) -> str:
    """The kind of the mount that holds ``path``, from the text of ``mountinfo``."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if "-" not in fields:
            continue
        point = Path(_unescape(fields[4]))
        # Of several mounts on one point the last one is visible.
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[fields.index("-") + 1]
    return kind


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
