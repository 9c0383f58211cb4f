"""The per-launch file: where rank 0 tells the other ranks of its node which run it opened.

``<runtime directory>/launch-<key>.json``, private to the user. Only a file whose rank 0 is
alive counts, so that one left by an earlier launch never leads a rank into an old run; a
restart by the same launcher may ask for the dead one's run, to go on in its directory. A file
that neither can need any more is removed by whoever comes by.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.run.meeting.launch_key import Node, ProcessName
from unilab_metrics.storage.filesystem import boot_id, read_private, write_atomic
from unilab_metrics.storage.path_text import path_of, path_text
from unilab_metrics.storage.places import runtime_directory
from unilab_metrics.storage.process_table import stat_fields

_KEEP_UNREADABLE_S = 24 * 3600
_POLL_S = 0.05
_PREFIX = "launch-"
_MAX_BYTES = 64 * 1024
_VERSION = 1


class LaunchFile(msgspec.Struct, frozen=True):
    """What rank 0 says; the starts make the pids unambiguous. ``keeper_pid``: a launcher that
    may start rank 0 again, 0 if there is none."""

    run_dir: str
    pid: int
    process_start: str
    boot_id: str
    version: int = _VERSION
    keeper_pid: int = 0
    keeper_start: str = ""


_decoder = msgspec.json.Decoder(LaunchFile)


def this_node() -> Node:
    """Where we run now, as part of a key."""
    return Node(boot_id(), os.getuid())


def process_name(pid: int) -> ProcessName:
    """The pid with the process's start; the start is empty where the system hides it."""
    return ProcessName(pid, _process_start(pid) or "")


def parent_of(pid: int) -> int:
    """Parent pid of one of our own ancestors, 0 if it cannot be told."""
    fields = stat_fields(pid)
    if fields:
        return int(fields[1])
    text = _ps(pid, "ppid=")
    return int(text) if text.isdigit() else 0


def announce_run(key: str, run_dir: Path, keeper: ProcessName | None = None) -> None:
    """Write the file for the other ranks. ``keeper``: the launcher, if it may start rank 0
    again after a failure. Raises ``OSError`` and ``StorageError``."""
    own = process_name(os.getpid())
    keeper = keeper or ProcessName(0, "")
    content = LaunchFile(
        path_text(run_dir),
        own.pid,
        own.start,
        boot_id(),
        keeper_pid=keeper.pid,
        keeper_start=keeper.start,
    )
    path = _path(key)
    sweep_launches()
    write_atomic(path, msgspec.json.encode(content))


def is_kept(key: str) -> bool:
    """Whether this launch may be started again by its launcher; never raises."""
    try:
        found = _read(_path(key))
    except (OSError, StorageError):
        return False
    return found is not None and _has_keeper(found)


def forget_run(key: str, run_dir: Path) -> None:
    """Remove the file of a launch whose run is complete; another run's file stays."""
    try:
        path = _path(key)
        found = _read(path)
        if found is not None and found.run_dir == path_text(run_dir) and not _has_keeper(found):
            path.unlink(missing_ok=True)
    except (OSError, StorageError):
        return


def sweep_launches(key: str = "", patience_s: float = 0.0) -> None:
    """Remove the files that nobody can need: rank 0 is dead, and so is who might start it
    again. ``patience_s``: how long to wait for that of ``key``'s rank 0. Never raises."""
    deadline_s = time.monotonic() + patience_s
    try:
        directory, awaited = runtime_directory(), _path(key)
        _sweep(directory)
        while key and awaited.exists() and time.monotonic() < deadline_s and not is_kept(key):
            time.sleep(_POLL_S)
            _sweep(directory)
    except (OSError, StorageError):
        return


def find_run(key: str, *, of_dead_rank_0: bool = False) -> Path | None:
    """The run that rank 0 of this launch opened, ``None`` while it has not.

    ``of_dead_rank_0``: also the run of a rank 0 that has died, for the launcher's restart.
    Cheap enough to be polled; never raises.
    """
    try:
        found = _read(_path(key))
    except (OSError, StorageError):
        return None
    if found is None or found.boot_id != boot_id():
        return None
    if not of_dead_rank_0 and not is_alive(ProcessName(found.pid, found.process_start)):
        return None
    return path_of(found.run_dir)


def rank_0_of(key: str) -> ProcessName | None:
    """The rank 0 of this launch, dead or alive; ``None`` if it was never on this node, or its
    file has been swept away. Never raises."""
    try:
        found = _read(_path(key))
    except (OSError, StorageError):
        return None
    if found is None or found.boot_id != boot_id():
        return None
    return ProcessName(found.pid, found.process_start)


def is_alive(process: ProcessName) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    fields = stat_fields(process.pid)
    if fields:
        return fields[0] not in {"Z", "X"} and process.start in {"", fields[19]}
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process.start in {"", _process_start(process.pid)}


def _read(path: Path) -> LaunchFile | None:
    try:
        content = _decoder.decode(read_private(path, _MAX_BYTES))
    except (OSError, StorageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return content if content.version == _VERSION else None


def _path(key: str) -> Path:
    return runtime_directory() / f"{_PREFIX}{key}.json"


def _sweep(directory: Path) -> None:
    for path in directory.glob(f"{_PREFIX}*.json"):
        try:
            if _is_useless(path):
                path.unlink()
        except OSError:
            continue


def _is_useless(path: Path) -> bool:
    found = _read(path)
    if found is None:
        # Perhaps another version's, which knows what it is good for.
        return time.time() - path.stat().st_mtime > _KEEP_UNREADABLE_S
    if found.boot_id != boot_id():
        return True
    rank_0 = ProcessName(found.pid, found.process_start)
    return not (is_alive(rank_0) or _has_keeper(found))


def _has_keeper(found: LaunchFile) -> bool:
    keeper = ProcessName(found.keeper_pid, found.keeper_start)
    return found.boot_id == boot_id() and keeper.pid > 0 and is_alive(keeper)


def _process_start(pid: int) -> str | None:
    fields = stat_fields(pid)
    if fields:
        return fields[19]
    return _ps(pid, "lstart=") or None


def _ps(pid: int, column: str) -> str:
    if Path("/proc/self").is_dir():
        return ""  # procfs has answered already: there is no such process
    try:
        answer = subprocess.run(
            ["ps", "-o", column, "-p", str(pid)],  # noqa: S607 (no procfs; a tool of POSIX)
            capture_output=True,
            text=True,
            timeout=1.0,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
