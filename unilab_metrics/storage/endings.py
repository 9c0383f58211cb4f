"""``bus/endings.jsonl``: what a launcher of ours knows of how its processes ended.

Only a parent is told, and by the time it has waited for its child nobody else can ask any more.
One line per process, appended before the parent waits; who reads it learns nothing from a file
that is not there, is cut off or holds something else.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.filesystem import boot_id, read_private

ENDINGS_FILE = "endings.jsonl"
_MAX_BYTES = 1024 * 1024
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """``started_mono_ns``, ``ended_mono_ns``: the process ran all the time between them, on the
    monotonic clock of the boot. ``status``: its exit code, negative for a signal."""

    pid: int
    boot_id: str
    started_mono_ns: int
    ended_mono_ns: int
    status: int


_decoder = msgspec.json.Decoder(Ending)


def note_ending(
    bus: Path, pid: int, status: int, *, started_mono_ns: int, ended_mono_ns: int
) -> None:
    """Append a line. Raises ``OSError``, also while there is no such directory."""
    ending = Ending(
        pid=pid,
        boot_id=boot_id(),
        started_mono_ns=started_mono_ns,
        ended_mono_ns=ended_mono_ns,
        status=status,
    )
    fd = os.open(bus / ENDINGS_FILE, _FLAGS, 0o600)
    try:
        # One write, so that two launchers' lines do not mix.
        os.write(fd, msgspec.json.encode(ending) + b"\n")
    finally:
        os.close(fd)


def noted_status(bus: Path, pid: int, at_mono_ns: int) -> int | None:
    """Exit code (negative: signal) of the process that had ``pid`` at ``at_mono_ns`` of this
    boot, ``None`` if nobody noted it."""
    try:
        data = read_private(bus / ENDINGS_FILE, _MAX_BYTES)
    except (OSError, StorageError):
        return None
    this_boot = boot_id()
    found = None
    for line in data.splitlines():
        try:
            ending = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        ran = ending.started_mono_ns <= at_mono_ns <= ending.ended_mono_ns
        if ending.pid == pid and ending.boot_id == this_boot and ran:
            found = ending.status
    return found
