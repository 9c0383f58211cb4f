"""The per-launch file: where rank 0 tells the other ranks of its node which run it opened.

``<runtime directory>/launch-<key>.json``, private to the user. Only a file whose rank 0 is
alive counts, so that one left by an earlier launch never leads a rank into an old run; a
restart by the same launcher may ask for the dead one's run, to go on in its directory.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.run.launch_key import Node, ProcessName
from unilab_metrics.storage.filesystem import (
    boot_id,
    read_private,
    runtime_directory,
    write_atomic,
)

_KEEP_DEAD_S = 24 * 3600
_PREFIX = "launch-"
_MAX_BYTES = 64 * 1024
_VERSION = 1


class LaunchFile(msgspec.Struct, frozen=True):
    """What rank 0 says. ``process_start`` makes its pid unambiguous."""

    run_dir: str
    pid: int
    process_start: str
    boot_id: str
    version: int = _VERSION


_decoder = msgspec.json.Decoder(LaunchFile)


def this_node() -> Node:
    """Where we run now, as part of a key."""
    return Node(boot_id(), os.getuid())


def process_name(pid: int) -> ProcessName:
    """The pid with the process's start; the start is empty where the system hides it."""
    return ProcessName(pid, _process_start(pid) or "")


def parent_of(pid: int) -> int:
    """Parent pid of one of our own ancestors, 0 if it cannot be told."""
    fields = _stat_fields(pid)
    if fields:
        return int(fields[1])
    text = _ps(pid, "ppid=")
    return int(text) if text.isdigit() else 0


def announce_run(key: str, run_dir: Path) -> None:
    """Write the file for the other ranks. Raises ``OSError`` and ``StorageError``."""
    own = process_name(os.getpid())
    content = LaunchFile(os.fspath(run_dir), own.pid, own.start, boot_id())
    directory = runtime_directory()
    _remove_old(directory)
    write_atomic(directory / f"{_PREFIX}{key}.json", msgspec.json.encode(content))


def forget_run(key: str, run_dir: Path) -> None:
    """Remove the file of a launch whose run is complete; another run's file stays."""
    try:
        path = runtime_directory() / f"{_PREFIX}{key}.json"
        found = _read(path)
        if found is not None and found.run_dir == os.fspath(run_dir):
            path.unlink(missing_ok=True)
    except (OSError, StorageError):
        return


def find_run(key: str, *, of_dead_rank_0: bool = False) -> Path | None:
    """The run that rank 0 of this launch opened, ``None`` while it has not.

    ``of_dead_rank_0``: also the run of a rank 0 that has died, for the launcher's restart.
    Cheap enough to be polled; never raises.
    """
    try:
        found = _read(runtime_directory() / f"{_PREFIX}{key}.json")
    except (OSError, StorageError):
        return None
    if found is None or found.boot_id != boot_id():
        return None
    if not of_dead_rank_0 and not is_alive(ProcessName(found.pid, found.process_start)):
        return None
    return Path(found.run_dir)


def is_alive(process: ProcessName) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    fields = _stat_fields(process.pid)
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
    except (OSError, StorageError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return content if content.version == _VERSION else None


def _remove_old(directory: Path) -> None:
    """Forget launches whose rank 0 died long ago; a younger one may be restarted."""
    now_s = time.time()
    for path in directory.glob(f"{_PREFIX}*.json"):
        try:
            if now_s - path.stat().st_mtime < _KEEP_DEAD_S:
                continue
            found = _read(path)
            if found is None or not is_alive(ProcessName(found.pid, found.process_start)):
                path.unlink()
        except OSError:
            continue


def _process_start(pid: int) -> str | None:
    fields = _stat_fields(pid)
    if fields:
        return fields[19]
    return _ps(pid, "lstart=") or None


def _stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the state on; empty where there is no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text[text.rfind(")") + 2 :].split()  # the command's name may hold anything


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
