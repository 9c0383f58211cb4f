"""CURVE keys of a run: ``bus/keys/``, private to the user that trains.

``server.key`` names the run and outlives restarts of its aggregator; ``publish.key`` and
``watch.key`` are what its own processes and its viewers show; ``allowed`` lists the public
keys that may connect. A secret key stays in its file: it is in no message, no log, no
environment and no command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
import zmq

from unilab_metrics.errors import ExitCode, KeyFileError, StorageError, UnsafePathError
from unilab_metrics.storage.filesystem import private_directory, read_private, write_atomic
from unilab_metrics.transport import allow_list
from unilab_metrics.transport.allow_list import PUBLISH, WATCH, AllowList, Use

KEY_DIRECTORY = "keys"
SERVER_KEY_FILE = "server.key"
PUBLISH_KEY_FILE = "publish.key"
WATCH_KEY_FILE = "watch.key"
ALLOWED_FILE = "allowed"
KEY_FILE_VERSION = 1
_SERVER: Final = "server"
_MAX_BYTES = 16 * 1024
_MAX_ALLOWED_BYTES = 16 * 1024 * 1024
_FILES: dict[Use, str] = {PUBLISH: PUBLISH_KEY_FILE, WATCH: WATCH_KEY_FILE}
_ALLOWED_HEAD = """\
# Who may connect to this run over TCP. One key a line:
#   publish|watch  public-key(z85)  [ranks=0,4-7]  [name]
# Read again when it changes; a key that is taken out is cut off at once.
"""


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of keys in z85. ``use``: ``server``, ``publish`` or ``watch``. ``server``: the
    public key of the run that it belongs to."""

    version: int = KEY_FILE_VERSION
    use: Literal["server", "publish", "watch"]
    public: str
    secret: str
    server: str

    def __repr__(self) -> str:
        """Without the secret, which no traceback may show."""
        return f"KeyFile({self.use}, public={self.public!r})"


class CurveServer(NamedTuple):
    """What a bound socket needs."""

    public: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"CurveServer({self.public!r})"


class CurveClient(NamedTuple):
    """What a connecting socket needs. ``origin``: the file, for messages."""

    server: str
    public: str
    secret: str
    origin: Path

    def __repr__(self) -> str:
        """Without the secret."""
        return f"CurveClient({self.origin})"


class _VersionOnly(msgspec.Struct, frozen=True):
    version: int


_decoder = msgspec.json.Decoder(KeyFile)
_version_decoder = msgspec.json.Decoder(_VersionOnly)


def key_directory(bus_dir: Path) -> Path:
    """Where the keys of a run lie."""
    return bus_dir / KEY_DIRECTORY


def key_path(bus_dir: Path, use: Use) -> Path:
    """The run's own key file for this use."""
    return key_directory(bus_dir) / _FILES[use]


def allowed_path(bus_dir: Path) -> Path:
    """The allow-list of a run."""
    return key_directory(bus_dir) / ALLOWED_FILE


def prepare_keys(bus_dir: Path) -> CurveServer:
    """The run's server key, made with everything around it if there is none yet.

    Only the holder of the aggregator's lease may call it. Raises :class:`KeyFileError` for
    files that are not private or damaged, ``UnsafePathError`` for the directory, ``OSError``.
    """
    directory = private_directory(key_directory(bus_dir))
    path = directory / SERVER_KEY_FILE
    if os.path.lexists(path):
        server = _read(path, _SERVER)
    else:
        # The clients' pairs of a run whose server key is gone fit no lock any more.
        server = _new(_SERVER)
        for name in (PUBLISH_KEY_FILE, WATCH_KEY_FILE):
            (directory / name).unlink(missing_ok=True)
        _write(path, server)
    lines: list[str] = []
    for use, name in _FILES.items():
        if not os.path.lexists(directory / name):
            made = _new(use, server.public)
            _write(directory / name, made)
            lines.append(allow_list.render(use, made.public, name="(this run's own)"))
    if lines:
        add_allowed(bus_dir, lines)
    return CurveServer(server.public, server.secret)


def add_allowed(bus_dir: Path, lines: list[str]) -> None:
    """Append lines to the allow-list, as a whole; see :func:`allow_list.render`.

    One process at a time. Raises :class:`KeyFileError` and ``OSError``.
    """
    path = allowed_path(bus_dir)
    text = _read_allowed_text(path) if os.path.lexists(path) else _ALLOWED_HEAD
    if text and not text.endswith("\n"):
        text += "\n"
    write_atomic(path, (text + "".join(f"{line}\n" for line in lines)).encode())


def admit(bus_dir: Path, wanted: Mapping[str, str]) -> frozenset[str]:
    """Put lines on the allow-list; which of their keys may connect now.

    ``wanted``: lines by key. A key whose line somebody has made a comment stays out. One
    process at a time. Raises :class:`KeyFileError` and ``OSError``.
    """
    text = _read_allowed_text(allowed_path(bus_dir))
    lines = [line for key, line in wanted.items() if key not in text]
    if lines:
        add_allowed(bus_dir, lines)
    return frozenset(wanted) & frozenset(read_allowed(bus_dir).grants)


def read_allowed(bus_dir: Path) -> AllowList:
    """Raises :class:`KeyFileError` if the list is missing, not private or unreadable: then
    nobody may be let in."""
    return allow_list.parse(_read_allowed_text(allowed_path(bus_dir)))


def read_server(bus_dir: Path) -> CurveServer:
    """The run's server key. Raises :class:`KeyFileError`, also if there is none."""
    found = _read(key_directory(bus_dir) / SERVER_KEY_FILE, _SERVER)
    return CurveServer(found.public, found.secret)


def read_client(path: Path, use: Use) -> CurveClient:
    """A client's pair. Raises :class:`KeyFileError`, which names the file and what to do."""
    found = _read(path, use)
    return CurveClient(found.server, found.public, found.secret, path)


def new_client(path: Path, use: Use, server: str) -> str:
    """Make a pair for a process that shares no file system with the run; its public key,
    which belongs on the run's allow-list. Raises ``OSError``."""
    made = _new(use, server)
    _write(path, made)
    return made.public


def _new(use: Literal["server", "publish", "watch"], server: str = "") -> KeyFile:
    public, secret = (key.decode("ascii") for key in zmq.curve_keypair())
    return KeyFile(use=use, public=public, secret=secret, server=server or public)


def _write(path: Path, file: KeyFile) -> None:
    text = msgspec.json.format(msgspec.json.encode(file), indent=2)
    write_atomic(path, text + b"\n", sync=True)


def _read(path: Path, use: Literal["server", "publish", "watch"]) -> KeyFile:
    data = _read_private(path, _MAX_BYTES)
    try:
        version = _version_decoder.decode(data).version
        if version != KEY_FILE_VERSION:
            reason = f"is of version {version}, this program knows {KEY_FILE_VERSION}"
            raise KeyFileError(path, reason, exit_code=ExitCode.DAMAGED)
        found = _decoder.decode(data)
        if not all(map(allow_list.is_public_key, (found.public, found.secret, found.server))):
            raise ValueError("a key is not 40 characters of z85")
        is_a_pair = zmq.curve_public(found.secret.encode()).decode() == found.public
    except (ValueError, RecursionError, zmq.ZMQError) as error:
        # Whatever it is, the file's content must not reach a message.
        del error
        reason = "is no key file; take a fresh copy from the run's bus/keys/"
        raise KeyFileError(path, reason, exit_code=ExitCode.DAMAGED) from None
    if not is_a_pair:
        reason = "holds two keys that are no pair; take a fresh copy from the run's bus/keys/"
        raise KeyFileError(path, reason, exit_code=ExitCode.DAMAGED)
    if found.use != use:
        raise KeyFileError(path, _MIXED_UP.get((found.use, use), f"is no {use} key"))
    return found


_MIXED_UP = {
    (PUBLISH, WATCH): f"is a key for publishing; watching needs the run's {WATCH_KEY_FILE}",
    (WATCH, PUBLISH): f"is a key for watching; publishing needs the run's {PUBLISH_KEY_FILE}",
    (_SERVER, WATCH): "is the run's server key, which stays where it is; watching needs its "
    f"{WATCH_KEY_FILE}",
}


def _read_allowed_text(path: Path) -> str:
    try:
        return _read_private(path, _MAX_ALLOWED_BYTES).decode()
    except UnicodeDecodeError as error:
        raise KeyFileError(path, "is no text", exit_code=ExitCode.DAMAGED) from error


def _read_private(path: Path, max_bytes: int) -> bytes:
    try:
        return read_private(path, max_bytes)
    except UnsafePathError as error:
        advice = "; `chmod 600` it, and make new keys if others may have read it"
        reason = error.reason + (advice if "mode" in error.reason else "")
        raise KeyFileError(path, reason) from error
    except StorageError as error:
        raise KeyFileError(path, error.reason, exit_code=ExitCode.DAMAGED) from error
    except FileNotFoundError as error:
        raise KeyFileError(path, "there is no such key file") from error
    except OSError as error:
        raise KeyFileError(path, f"cannot be read: {error.strerror or error}") from error
