"""The keys of a run, and who may read its private files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.errors import ConnectionFileError, KeyFileError, StorageError
from unilab_metrics.run.doctor.finding import ERROR, OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.storage.filesystem import check_private
from unilab_metrics.transport import keys
from unilab_metrics.transport.allow_list import PUBLISH, WATCH

_SUBJECT = "keys"


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings about modes, owners, keys and the allow-list."""
    unsafe = list(_unsafe(patient.bus_dir))
    yield from unsafe
    if not unsafe:
        yield Finding(_SUBJECT, OK, f"{patient.bus_dir} and its files are ours alone")
    if keys.key_directory(patient.bus_dir).is_dir():
        yield from _keys(patient)
    else:
        yield Finding(_SUBJECT, OK, "no keys: the run listens on this node only")


def _unsafe(directory: Path) -> Iterator[Finding]:
    for path in [directory, *sorted(directory.rglob("*"))]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        try:
            check_private(path, status, directory=is_directory)
        except StorageError as error:
            yield Finding(_SUBJECT, ERROR, str(error), _how_to_close(path, status))


def _how_to_close(path: Path, status: os.stat_result) -> str:
    if status.st_uid != os.geteuid():
        return f"chown -R {os.geteuid()} {path}   (or ask as its owner)"
    if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
        return f"chmod {'700' if stat.S_ISDIR(status.st_mode) else '600'} {path}"
    return f"remove {path} after a look at it"


def _keys(patient: Patient) -> Iterator[Finding]:
    for use in (PUBLISH, WATCH):
        try:
            client = keys.read_client(keys.key_path(patient.bus_dir, use), use)
        except KeyFileError as error:
            yield Finding(_SUBJECT, ERROR, str(error), "the next aggregator makes a missing one")
            continue
        file = patient.connection
        server = "" if isinstance(file, ConnectionFileError) else file.server_key
        if server and client.server != server:
            yield Finding(_SUBJECT, ERROR, f"{client.origin} is of another run's server key")
    try:
        allowed = keys.read_allowed(patient.bus_dir)
    except KeyFileError as error:
        yield Finding(_SUBJECT, ERROR, str(error), "without the list nobody is let in")
        return
    for problem in allowed.problems:
        path = keys.allowed_path(patient.bus_dir)
        yield Finding(_SUBJECT, WARNING, f"{path}: {problem}", f"edit {path}")
    publishing = sum(grant.use == PUBLISH for grant in allowed.grants.values())
    watching = len(allowed.grants) - publishing
    yield Finding(_SUBJECT, OK, f"{publishing} keys may publish, {watching} may watch")
