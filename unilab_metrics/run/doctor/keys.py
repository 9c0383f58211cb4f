"""The keys of a run, and who may read its private files."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from unilab_metrics.errors import ConnectionFileError, KeyFileError, StorageError
from unilab_metrics.run.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.storage.filesystem import check_private
from unilab_metrics.transport import keys
from unilab_metrics.transport.allow_list import PUBLISH, WATCH, Use, render
from unilab_metrics.wording import counted

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
    server = yield from _server(patient)
    own: dict[Use, str] = {}
    for use in (PUBLISH, WATCH):
        path = keys.key_path(patient.bus_dir, use)
        try:
            client = keys.read_client(path, use)
        except KeyFileError as error:
            fix = "the next aggregator makes one" if not os.path.lexists(path) else _remake(path)
            yield Finding(_SUBJECT, ERROR, str(error), fix)
            continue
        own[use] = client.public
        if server and client.server != server:
            text = f"{path} is of another server key than {keys.SERVER_KEY_FILE}: it opens nothing"
            yield Finding(_SUBJECT, ERROR, text, _remake(path))
    yield from _allowed(patient, own)


def _server(patient: Patient) -> Generator[Finding, None, str]:
    """The public half of the run's server key, empty if nobody can tell."""
    path = keys.key_directory(patient.bus_dir) / keys.SERVER_KEY_FILE
    try:
        server = keys.read_server(patient.bus_dir).public
    except KeyFileError as error:
        afterwards = "the next aggregator makes new keys, of which other machines need copies"
        fix = f"rm {shlex.quote(str(path))}   ({afterwards})"
        yield Finding(_SUBJECT, ERROR, str(error), fix if os.path.lexists(path) else afterwards)
        return ""
    file = patient.connection
    named = "" if isinstance(file, ConnectionFileError) else file.server_key
    if named and named != server:
        text = f"bus.json names another server key than {path}: no other node gets in"
        fix = "the next aggregator writes another bus.json"
        if patient.aggregator_pid:
            fix = f"kill {patient.aggregator_pid}   (rank 0 starts another one, nothing is lost)"
        yield Finding(_SUBJECT, ERROR, text, fix)
    return server


def _allowed(patient: Patient, own: Mapping[Use, str]) -> Iterator[Finding]:
    path = keys.allowed_path(patient.bus_dir)
    try:
        allowed = keys.read_allowed(patient.bus_dir)
    except KeyFileError as error:
        fix = "without the list nobody is let in; "
        fix += "; ".join(f"add the line: {render(use, key)}" for use, key in own.items())
        yield Finding(_SUBJECT, ERROR, str(error), fix.removesuffix("; "))
        return
    for problem in allowed.problems:
        yield Finding(_SUBJECT, WARNING, f"{path}: {problem}", f"edit {path}")
    for use, key in own.items():
        grant = allowed.grants.get(key)
        if key in allowed.revoked:
            text = f"{path}: the run's own {use}.key is revoked: its line is a comment"
            who = "publishes" if use == PUBLISH else "watches"
            yield Finding(_SUBJECT, INFO, f"{text}, so nobody {who} with it over TCP")
        elif grant is None or grant.use != use:
            text = f"{path} does not let the run's own {use}.key in"
            yield Finding(_SUBJECT, ERROR, text, f"add the line: {render(use, key)}")
    publishing = sum(grant.use == PUBLISH for grant in allowed.grants.values())
    watching = len(allowed.grants) - publishing
    text = f"{counted(publishing, 'key')} may publish, {watching:,} may watch"
    yield Finding(_SUBJECT, OK, text)
    others = len(allowed.revoked - set(own.values()))
    if others:
        text = f"{path}: {counted(others, 'key is', 'keys are')} revoked: a comment now"
        yield Finding(_SUBJECT, INFO, text)


def _remake(path: Path) -> str:
    return f"rm {shlex.quote(str(path))}   (the next aggregator makes a new one)"
