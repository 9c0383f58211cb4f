"""Where a subscriber finds the aggregator of its run: by the run directory, or by an address
and a key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple, Protocol

from unilab_metrics.errors import (
    ConnectionFileError,
    EndpointError,
    ExitCode,
    RunNotFoundError,
    UnilabMetricsError,
)
from unilab_metrics.storage import lease
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HISTORY_PREFIX
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.allow_list import WATCH
from unilab_metrics.transport.keys import CurveClient
from unilab_metrics.transport.routes import Route, choose_route

_TRY_AGAIN_S = 30.0


class Contact(NamedTuple):
    """``life``: tells two aggregators apart that listen at the same place."""

    route: Route
    life: tuple[int, int] = (0, 0)


class Whereabouts(Protocol):
    """Where a subscriber looks for its aggregator. ``bus_dir``: where the run's history lies,
    ``None`` where this process does not see it. ``key_file``: of the key that is shown."""

    @property
    def bus_dir(self) -> Path | None: ...  # noqa: D102 - above

    @property
    def key_file(self) -> Path: ...  # noqa: D102 - above

    @property
    def problem(self) -> UnilabMetricsError | None:
        """Why there is no way any more without a person."""
        ...

    def look(self) -> Contact | None:
        """A living aggregator, as far as can be told from here."""
        ...

    def was_silent(self, contact: Contact) -> None:
        """Nothing was heard there."""
        ...

    def close(self) -> None:
        """Give up what leads there; idempotent."""
        ...


class RunOnDisk:
    """A run whose directory this process sees. ``bus_dir``: where its history lies."""

    def __init__(self, run_dir: Path) -> None:
        self.bus_dir: Path | None = rendezvous.bus_directory(run_dir)
        self.key_file = keys.key_path(rendezvous.bus_directory(run_dir), WATCH)
        self._run_dir = run_dir
        self._bus = rendezvous.bus_directory(run_dir)
        self._lease = rendezvous.aggregator_lease(run_dir)
        self._silent: tuple[tuple[int, int], float] | None = None
        self.problem: UnilabMetricsError | None = None

    def check(self) -> None:
        """Raises :class:`RunNotFoundError` if the directory holds no run, and
        :class:`ConnectionFileError` if its bus is not there yet, not ours or damaged."""
        if not self._bus.is_dir():
            raise RunNotFoundError(self._run_dir)
        try:
            rendezvous.read(self._bus)
        except ConnectionFileError as error:
            missing = error.exit_code == ExitCode.NO_LIVE_RUN
            if not missing or not list_segments(self._bus, HISTORY_PREFIX):
                raise

    def look(self) -> Contact | None:
        """A living aggregator, as far as can be told from here.

        Raises :class:`ConnectionFileError` for a file that is not ours or damaged, and
        ``KeyFileError`` if it is on another node and the run's key cannot be used.
        """
        try:
            file = rendezvous.read(self._bus)
            life = (file.pid, file.started_unix_ns)
            if file.boot_id == boot_id():
                # Only on its own node does the lease say for sure whether it lives.
                if lease.is_free(self._lease):
                    return None
            elif not file.tcp_announce or self._is_silent(life):
                return None
            return Contact(choose_route(file, self._bus, WATCH), life)
        except ConnectionFileError as error:
            is_missing = error.exit_code == ExitCode.NO_LIVE_RUN
            if not is_missing and not lease.is_free(self._lease):
                raise
            return None

    def was_silent(self, contact: Contact) -> None:
        """Nothing was heard there: what a killed aggregator on another node leaves is its file.
        It is passed over for a while."""
        if contact.route.curve is not None:
            self._silent = (contact.life, time.monotonic() + _TRY_AGAIN_S)

    def close(self) -> None:
        """Nothing is held."""

    def _is_silent(self, life: tuple[int, int]) -> bool:
        silent = self._silent
        return silent is not None and silent[0] == life and time.monotonic() < silent[1]


class RunAtAddress:
    """A run of which only the address and a key are known; there are no files of it."""

    bus_dir: Path | None = None
    problem: UnilabMetricsError | None = None

    def __init__(self, endpoint: str, curve: CurveClient, key_file: Path) -> None:
        """``key_file``: where ``curve`` was read from. Raises :class:`EndpointError` for what is no
        ``tcp://HOST:PORT``."""
        address = parse_tcp(endpoint)
        if not address.port or address.host == "*":
            raise EndpointError(endpoint, "is no tcp://HOST:PORT to connect to")
        self.endpoint = address.endpoint
        self.key_file = key_file
        self._contact = Contact(Route("", self.endpoint, "", curve))

    def look(self) -> Contact | None:
        """The address; whether anybody lives there shows when it answers."""
        return self._contact

    def was_silent(self, contact: Contact) -> None:
        """There is nowhere else to look."""

    def close(self) -> None:
        """Nothing is held."""
