"""The first moments of a connection over TCP: why it does not come about, in words."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from unilab_metrics.errors import KeyRefusedError, NoLiveRunError
from unilab_metrics.transport.diagnosis import Finding

WELCOME_S = 3.0
_POLL_MS = 20.0
_REFUSED = (
    "the key is not on the run's allow-list (bus/keys/allowed), or was taken off it, or this is "
    "the port for publishing (bus/bus.json names the one for viewers, tcp_announce)"
)
_OTHER_RUN = (
    "the key is for another run than the one that listens there; take a fresh copy of that run's "
    "bus/keys/watch.key"
)


class Arriving(Protocol):
    """A connection that is being made."""

    @property
    def finding(self) -> Finding:
        """What is known about it so far."""
        ...

    def wait(self, timeout_ms: float) -> bool:
        """Whether something arrived within ``timeout_ms``."""
        ...


def await_welcome(
    connection: Arriving, endpoint: str, key_file: Path, timeout_s: float = WELCOME_S
) -> None:
    """Returns once the server has let us in. Raises :class:`KeyRefusedError` or
    :class:`NoLiveRunError`, at the latest after ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while not (finding := connection.finding).is_sure and time.monotonic() < deadline_s:
        connection.wait(_POLL_MS)
    if finding == Finding.REFUSED:
        raise KeyRefusedError(endpoint, key_file, _REFUSED)
    if finding == Finding.OTHER_SERVER:
        raise KeyRefusedError(endpoint, key_file, _OTHER_RUN)
    if finding == Finding.NO_BUS:
        raise NoLiveRunError(f"{endpoint}: what listens there is no bus of a run for viewers")
    if finding == Finding.NOBODY_LISTENS:
        raise NoLiveRunError(f"{endpoint}: nobody listens there; has the run ended or moved?")
    if finding == Finding.NO_ANSWER:
        raise NoLiveRunError(
            f"{endpoint}: no answer within {timeout_s:.0f} s; the host is down, or a firewall is "
            "in between"
        )
