"""``console.log``: what the ranks of a training print, captured from the first byte.

The ranks write into the file themselves, so nothing that they print passes through a process
that could be killed, be slow or be stopped.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from unilab_metrics.config import CONSOLE_FILE
from unilab_metrics.errors import StorageError
from unilab_metrics.storage.bounded_reading import read_end

_TAIL_BYTES = 32 * 1024
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def open_console(run_dir: Path) -> BinaryIO:
    """The run's ``console.log``, for appending by any number of processes (their standard
    output and error). Raises ``StorageError``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    path = run_dir / CONSOLE_FILE
    try:
        return os.fdopen(os.open(path, flags, 0o666), "ab", buffering=0)
    except OSError as error:
        raise StorageError(path, f"cannot be written: {error.strerror}") from error


def last_lines(run_dir: Path, count: int) -> list[str]:
    """The last lines of ``console.log`` as plain text: no escape codes, progress bars that
    rewrite a line as their last state. Empty if there is no such file."""
    try:
        text = read_end(run_dir / CONSOLE_FILE, _TAIL_BYTES).decode(errors="replace")
    except (OSError, StorageError):
        return []
    lines = [_plain(line) for line in text.splitlines()]
    return [line for line in lines if line][-count:]


def _plain(line: str) -> str:
    return _UNPRINTABLE.sub("", _ESCAPES.sub("", line).rstrip())
