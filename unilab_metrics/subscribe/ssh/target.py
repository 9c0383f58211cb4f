"""What people write for a run of another machine: ``[user@]host:path`` or ``ssh://…``."""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple
from urllib.parse import quote, unquote

from unilab_metrics.errors import SshTargetError

_SCHEME = "ssh://"
_MAX_PORT = 65535
_MAX_PATH_CHARS = 4096
"""As long as a path may be on Linux."""
_SHOWN_CHARS = 40
_NO_HOST = re.compile(r"[\s\0-\x1f\x7f]")


class SshTarget(NamedTuple):
    """``destination``: host, alias or ``user@host``, as ssh takes it. ``path``: of the run
    directory there, from the home directory if relative; empty for the newest live run.
    ``port``: 0 for what ssh's configuration says."""

    destination: str
    path: str
    port: int = 0

    def __str__(self) -> str:
        """As it may be written."""
        user, at, name = self.destination.rpartition("@")
        if self.port:
            name = f"[{name}]" if ":" in name else name
            return f"{_SCHEME}{user}{at}{name}:{self.port}/{quote(self.path.removeprefix('/'), errors='surrogateescape')}"
        return f"{user}{at}[{name}]:{self.path}" if ":" in name else f"{user}{at}{name}:{self.path}"


def is_ssh_target(text: str) -> bool:
    """Whether it names a run of another machine: there is a colon before the first slash, and
    nothing here has that name."""
    return _has_host(text) and not os.path.exists(text)


def parse_target(text: str) -> SshTarget:
    """Raises :class:`SshTargetError` for what is none."""
    target = _parse_url(text) if text.startswith(_SCHEME) else _parse_short(text)
    user, at, host = target.destination.rpartition("@")
    # A leading dash would be an option of ssh, whatever stands behind it.
    if not host or (at and not user) or host.startswith("-") or user.startswith("-"):
        raise SshTargetError(text, "names no host")
    if _NO_HOST.search(target.destination):
        raise SshTargetError(text, "has a host with spaces or control characters")
    if "\0" in target.path:
        raise SshTargetError(text, "has a path with a NUL in it")
    if len(text) > _MAX_PATH_CHARS:
        raise SshTargetError(f"{text[:_SHOWN_CHARS]}…", f"is {len(text):,} characters long")
    return target


def host_of(text: str) -> str:
    """The host that a text names as people write it; empty for one that names none."""
    try:
        return parse_target(text).destination if _has_host(text) else ""
    except SshTargetError:
        return ""


def _has_host(text: str) -> bool:
    return ":" in text.split("/", 1)[0] and not text.startswith(("tcp:", "ipc:"))


def copying(target: SshTarget) -> str:
    """Commands that copy the run's directory here and play it, to be pasted into a shell."""
    user, at, host = target.destination.rpartition("@")
    place = f"{user}{at}[{host}]" if ":" in host else target.destination
    port = f"-P {target.port} " if target.port else ""
    path = target.path.removeprefix("~/").rstrip("/")
    name = path.rpartition("/")[2]
    # A leading dash would be an option.
    here = shlex.quote(f"./{name}" if name.startswith("-") else name)
    source = shlex.quote(f"{place}:{path}")
    return f"scp -r {port}{source} . && unilab-metrics replay {here}"


def _parse_short(text: str) -> SshTarget:
    head, bracket, rest = text.partition("]:")
    user, at, name = head.rpartition("@")
    if bracket and name.startswith("["):
        return SshTarget(f"{user}{at}{name[1:]}", rest)
    host, colon, path = text.partition(":")
    if not colon or "/" in host:
        raise SshTargetError(text, "is no HOST:RUN_DIR")
    return SshTarget(host, path)


def _parse_url(text: str) -> SshTarget:
    authority, _, path = text[len(_SCHEME) :].partition("/")
    user, at, rest = authority.rpartition("@")
    if rest.startswith("["):
        host, closed, rest = rest[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise SshTargetError(text, "has a bracket that is not closed")
        port = rest[1:]
    else:
        host, _, port = rest.partition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    if port and not 0 < number <= _MAX_PORT:
        raise SshTargetError(text, f"has no port {port!r}")
    path = unquote(path, errors="surrogateescape")
    # As in git: the path of an address is absolute, `/~` begins one of a home directory.
    is_home = path.startswith("~") or not path
    return SshTarget(unquote(user) + at + unquote(host), path if is_home else f"/{path}", number)
