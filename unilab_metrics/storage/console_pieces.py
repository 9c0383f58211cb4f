"""Pieces of ``console.log`` and of the earlier file that it becomes when it is full.

A place is a file and an offset. The file is named by its inode, so that a place stays the same when
the file is renamed. Each call opens what it reads, reads a bounded piece and closes it again: safe
to call in the aggregator's loop.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.errors import why
from unilab_metrics.storage.bounded_reading import open_regular
from unilab_schema.requests import Console, ConsolePiece

MOST_BYTES = 128 * 1024
"""Of one piece."""


class _File(NamedTuple):
    fd: int
    name: str
    size_bytes: int


def console_piece(run_dir: Path, asked: Console, *, own_only: bool = True) -> ConsolePiece:
    """The answer to ``asked``. ``own_only``: files of another user are not read. Never raises."""
    files: list[_File] = []
    try:
        for name in (CONSOLE_FILE, EARLIER_CONSOLE_FILE):
            found = _open(run_dir / name, own_only=own_only)
            # A file that was renamed between the two is there twice.
            files = [found, *files] if found is not None else files
        return _piece(files[-1:] if len({file.name for file in files}) < 2 else files, asked)
    except OSError as error:
        return ConsolePiece(asked.request, problem=f"{CONSOLE_FILE}: {why(error)}")
    finally:
        for file in files:
            os.close(file.fd)


def _open(path: Path, *, own_only: bool) -> _File | None:
    try:
        fd = open_regular(path, follow=False)
    except FileNotFoundError:
        return None
    status = os.fstat(fd)
    if own_only and status.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(0, "belongs to another user")
    return _File(fd, f"{status.st_ino:x}", status.st_size)


def _piece(files: list[_File], asked: Console) -> ConsolePiece:
    """``files``: the earlier one first."""
    if not files:
        return ConsolePiece(asked.request, begins=True)
    most_bytes = min(max(asked.most_bytes, 0), MOST_BYTES)
    at = next((n for n, file in enumerate(files) if file.name == asked.file), None)
    if at is None or not 0 <= asked.offset <= files[at].size_bytes:
        piece = _end(files, most_bytes)
        piece = msgspec.structs.replace(piece, moved=bool(asked.file))
    elif asked.before:
        end = asked.offset
        if end == 0 and at > 0:
            at, end = at - 1, files[at - 1].size_bytes
        piece = _read(files, at, max(end - most_bytes, 0), end)
    else:
        piece = _behind(files, at, asked.offset, most_bytes)
    return msgspec.structs.replace(piece, request=asked.request)


def _behind(files: list[_File], at: int, offset: int, most_bytes: int) -> ConsolePiece:
    left_bytes = files[at].size_bytes - offset
    rest_bytes = sum(file.size_bytes for file in files[at + 1 :])
    if at + 1 < len(files) and (not left_bytes or rest_bytes >= most_bytes):
        # From here on the newer file alone counts.
        start = max(files[-1].size_bytes - most_bytes, 0)
        piece = _read(files, len(files) - 1, start, files[-1].size_bytes)
        return msgspec.structs.replace(piece, passed_over_bytes=left_bytes + start)
    end = files[at].size_bytes
    start = max(offset, end - most_bytes)
    piece = _read(files, at, start, end)
    return msgspec.structs.replace(piece, passed_over_bytes=start - offset)


def _end(files: list[_File], most_bytes: int) -> ConsolePiece:
    at = len(files) - 1
    if at > 0 and not files[at].size_bytes:
        at -= 1
    end = files[at].size_bytes
    return _read(files, at, max(end - most_bytes, 0), end)


def _read(files: list[_File], at: int, start: int, end: int) -> ConsolePiece:
    file = files[at]
    data = os.pread(file.fd, end - start, start) if end > start else b""
    return ConsolePiece(0, file.name, start, data, begins=start == 0 and at == 0)
