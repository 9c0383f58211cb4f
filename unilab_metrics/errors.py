"""Every error that unilab-metrics raises on purpose, and the exit codes of its commands.

Errors carry their facts as attributes, so that a caller need not parse the text. None of
them reaches a training loop: the publisher counts and names what went wrong instead.
"""

from __future__ import annotations

import errno
import os
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Exit codes of the ``unilab-metrics`` commands and of the helper processes."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    RUN_NOT_FOUND = 3
    NO_LIVE_RUN = 4
    REFUSED = 5
    DAMAGED = 6
    VERIFICATION_FAILED = 7
    UNHEALTHY = 8
    INTERRUPTED = 130


def why(error: OSError) -> str:
    """What the system said, in words that name the limit where it is one of the process."""
    if error.errno == errno.EFBIG:
        return "the process may write no larger file (file-size limit, ulimit -f)"
    return error.strerror or str(error)


class UnilabMetricsError(Exception):
    """Base of all our errors; ``exit_code`` is what a command ends with."""

    exit_code: int = ExitCode.UNEXPECTED


class StorageError(UnilabMetricsError):
    """A file or directory of ours cannot be used. Facts: ``path``, ``reason``."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = Path(path)
        self.reason = reason


class StorageFullError(StorageError):
    """An append did not fit (``ENOSPC``, ``EFBIG``, ``EDQUOT``, short write); the file is as
    before. Facts: ``path``, ``wanted_bytes``, ``error_number`` (0 for a short write)."""

    def __init__(self, path: Path | str, wanted_bytes: int, error_number: int = 0) -> None:
        cause = os.strerror(error_number) if error_number else "only a part of them fits"
        reason = f"no room for {wanted_bytes} bytes ({cause})"
        if error_number == errno.EFBIG:
            reason = f"{why(OSError(error_number, cause))}, no {wanted_bytes} bytes more"
        super().__init__(path, reason)
        self.wanted_bytes = wanted_bytes
        self.error_number = error_number


class UnsafePathError(StorageError):
    """A path has a foreign owner, a wrong mode, is a symlink, or is no such kind of file."""

    exit_code = ExitCode.REFUSED


class DamagedFileError(StorageError):
    """Bytes that cannot be passed over. Facts: ``path``, ``offset_bytes``, ``reason``."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, path: Path | str, offset_bytes: int, reason: str) -> None:
        super().__init__(path, f"byte {offset_bytes}: {reason}")
        self.offset_bytes = offset_bytes


class UnreadSettingsError(StorageError):
    """The settings of a run on which no aggregator is at work: nobody can tell who else is."""

    exit_code = ExitCode.DAMAGED


class IrregularFileError(StorageError, OSError):
    """What has the name of a file of ours is a pipe, a device, a directory or a symlink: no part of
    it is read. Facts: ``path``, ``reason``, ``errno``."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, path: Path | str, reason: str, error_number: int = errno.EINVAL) -> None:
        super().__init__(path, reason)
        self.errno = error_number
        self.strerror = reason
        self.filename = os.fspath(path)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class UnknownVersionError(StorageError):
    """A file of a format that this version does not know. Facts: ``found``, ``known``."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, path: Path | str, found: object, known: int) -> None:
        super().__init__(path, f"format version {found}, this program knows {known}")
        self.found = found
        self.known = known


class MissingPackageError(UnilabMetricsError):
    """A package that is needed for this only is not installed. Facts: ``package``, ``user``."""

    def __init__(self, user: str, package: str) -> None:
        super().__init__(f"{user} needs the package {package}: pip install {package}")
        self.user = user
        self.package = package


class SpoolError(StorageError):
    """The spool of a process cannot be made or read."""


class LeaseHeldError(UnilabMetricsError):
    """A lease is held by a live process. Facts: ``path``, ``pid`` (``None`` if unknown)."""

    exit_code = ExitCode.REFUSED

    def __init__(self, path: Path | str, pid: int | None) -> None:
        owner = f"pid {pid}" if pid else "another process"
        super().__init__(f"{path} is held by {owner}")
        self.path = Path(path)
        self.pid = pid


class EndpointError(UnilabMetricsError):
    """An endpoint that cannot be used. Facts: ``endpoint``, ``reason``."""

    exit_code = ExitCode.REFUSED

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(f"{endpoint} {reason}")
        self.endpoint = endpoint
        self.reason = reason


class EndpointInUseError(EndpointError):
    """Somebody listens there. Facts: ``endpoint``, ``pid`` (``None`` if unknown)."""

    def __init__(self, endpoint: str, pid: int | None) -> None:
        owner = f"pid {pid}" if pid else "another process"
        super().__init__(endpoint, f"used by {owner}")
        self.pid = pid


class ConnectionFileError(StorageError):
    """``bus.json`` is missing, unsafe, damaged or of an unknown version.

    ``exit_code`` tells which: 4 missing, 5 unsafe, 6 damaged or unknown version.
    """

    def __init__(
        self, path: Path | str, reason: str, exit_code: int = ExitCode.NO_LIVE_RUN
    ) -> None:
        super().__init__(path, reason)
        self.exit_code = exit_code


class KeyFileError(StorageError):
    """A key file or an allow-list that cannot be used. ``exit_code`` tells why: 5 missing, not
    private, or for another use; 6 damaged or of an unknown version."""

    def __init__(self, path: Path | str, reason: str, *, exit_code: int = ExitCode.REFUSED) -> None:
        super().__init__(path, reason)
        self.exit_code = exit_code


class KeyRefusedError(UnilabMetricsError):
    """A run does not take a key, or the key is another run's. Facts: ``endpoint``, ``path`` of
    the key file, ``reason``."""

    exit_code = ExitCode.REFUSED

    def __init__(self, endpoint: str, path: Path | str, reason: str) -> None:
        super().__init__(f"{endpoint} does not let {path} in: {reason}")
        self.endpoint = endpoint
        self.path = Path(path)
        self.reason = reason


class RunNotFoundError(StorageError):
    """A directory that holds no run of ours, or does not exist."""

    exit_code = ExitCode.RUN_NOT_FOUND

    def __init__(self, path: Path | str, reason: str = "holds no run") -> None:
        super().__init__(path, reason)


class NoLiveRunError(UnilabMetricsError):
    """The user has no live run on this machine, or none answers at an address."""

    exit_code = ExitCode.NO_LIVE_RUN


class SshTargetError(UnilabMetricsError):
    """A text that names no run of another machine. Facts: ``text``, ``reason``."""

    exit_code = ExitCode.USAGE

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text} {reason}; write HOST:RUN_DIR or ssh://USER@HOST:PORT/RUN_DIR")
        self.text = text
        self.reason = reason


class SshError(UnilabMetricsError):
    """A run of another machine that cannot be reached over ssh. Facts: ``destination``, ``reason``.
    ``exit_code`` tells why: 1 no ssh here, 2 its options, 4 no connection, 5 not let in.
    """

    def __init__(self, destination: str, reason: str, exit_code: int) -> None:
        super().__init__(f"ssh {destination}: {reason}")
        self.destination = destination
        self.reason = reason
        self.exit_code = exit_code


class VerificationError(UnilabMetricsError):
    """``verify`` found that something was lost, doubled or changed."""

    exit_code = ExitCode.VERIFICATION_FAILED
