"""One connection of ssh for several views: who holds it writes where its sockets are into a file
that has no name any more, and the views that were given its descriptor read there."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from unilab_metrics.errors import SshError
from unilab_metrics.subscribe.ssh.outage import Outage
from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
from unilab_metrics.subscribe.whereabouts import Contact
from unilab_metrics.transport.routes import Route

MAX_BYTES = 256 * 1024
"""Of what is told; a summary that is longer is left out."""
LOOK_S = 5.0
"""How often the other machine is asked where the run's sockets are now."""
_CHECK_BYTES = 8


class Told(NamedTuple):
    """What the views need of a :class:`RunOverSsh`."""

    announce: str = ""
    fetch: str = ""
    life: tuple[int, int] = (0, 0)
    problem: tuple[str, str, int] | None = None
    outage: Outage | None = None
    summary: bytes | None = None
    gone: tuple[str, ...] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Told)


class WayHolder:
    """Owns the connection; all methods belong to one thread. ``fd``: for the views, to be inherited."""

    def __init__(self, run: RunOverSsh) -> None:
        """``run``: open. Raises ``OSError``."""
        self._run = run
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - close() does
        self.fd = self._file.fileno()
        self._told: Told | None = None
        self._next_look_s = 0.0
        self.keep(is_looked_at=True)

    def keep(self, *, is_looked_at: bool) -> None:
        """Keeps the connection and tells what is new; to be called a few times a second.
        ``is_looked_at``: whether there are views that want to know about another aggregator."""
        now_s = time.monotonic()
        is_due = is_looked_at and now_s >= self._next_look_s
        if is_due:
            self._next_look_s = now_s + LOOK_S
        contact = self._run.look(asks=is_due)
        told = Told(outage=self._run.outage(), summary=self._run.summary, gone=self._run.gone)
        if contact is not None:
            route = contact.route
            told = told._replace(announce=route.announce, fetch=route.fetch, life=contact.life)
        if (problem := self._run.problem) is not None:
            reason = (problem.destination, problem.reason, problem.exit_code)
            told = told._replace(problem=reason)
        if told != self._told:
            self._told = told
            self._write(told)

    def close(self) -> None:
        """End the connection and what is told; idempotent."""
        self._run.close()
        self._file.close()

    def _write(self, told: Told) -> None:
        data = _encoder.encode(told)
        if len(data) > MAX_BYTES:
            data = _encoder.encode(told._replace(summary=None))
        os.pwrite(self.fd, _check(data) + data, 0)


class SharedWay:
    """A run of another machine by the connection of a :class:`WayHolder`. Owned by one thread."""

    bus_dir: Path | None = None
    key_file = Path()

    def __init__(self, fd: int) -> None:
        """``fd``: inherited from whoever holds the connection."""
        self._fd = fd
        self._told = Told()

    @property
    def problem(self) -> SshError | None:
        """As of :class:`RunOverSsh`."""
        return None if self._told.problem is None else SshError(*self._told.problem)

    @property
    def summary(self) -> bytes | None:
        """As of :class:`RunOverSsh`."""
        return self._told.summary

    @property
    def gone(self) -> tuple[str, ...] | None:
        """As of :class:`RunOverSsh`."""
        return self._told.gone

    def outage(self) -> Outage | None:
        """As of :class:`RunOverSsh`."""
        self._read()
        return self._told.outage

    def look(self) -> Contact | None:
        """Where the run's sockets are here."""
        self._read()
        told = self._told
        if not told.fetch:
            return None
        return Contact(Route("", told.announce, told.fetch), told.life)

    def was_silent(self, contact: Contact) -> None:
        """Who holds the connection looks himself."""

    def close(self) -> None:
        """The connection is another's."""

    def _read(self) -> None:
        data = os.pread(self._fd, _CHECK_BYTES + MAX_BYTES, 0)
        length = int.from_bytes(data[:4], "big")
        body = data[_CHECK_BYTES : _CHECK_BYTES + length]
        # What is just being written is read the next time.
        if data[:_CHECK_BYTES] == _check(body):
            self._told = _decoder.decode(body)


def _check(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big")
