"""The first moments of a connection over TCP: why it does not come about, in words."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from unilab_metrics.errors import KeyRefusedError, NoLiveRunError
from unilab_metrics.transport.diagnosis import Finding

WELCOME_S = 3.0
_UNDECIDED = frozenset({Finding.NO_ANSWER, Finding.OTHER_SERVER})
_POLL_MS = 20.0
_REFUSED = (
    "the key is not on the run's allow-list (bus/keys/allowed), or was taken off it, or this is "
    "the port for publishing (bus/bus.json names the one for viewers, tcp_announce)"
)
_TAKEN_OUT = "the key was taken off the run's allow-list (bus/keys/allowed)"
_NOT_OPENED = (
    "the server there does not take it: this is not the address to watch (bus/bus.json names it, "
    "tcp_announce), or the key is for another run, or was taken out; take a fresh copy of that "
    "run's bus/keys/watch.key"
)
"""All that can be known: a server that cannot open our first box hangs up without a word."""


class Admission:
    """Whether the server has taken our key back, over one connection after the other. Pure."""

    def __init__(self) -> None:
        self._is_refused = False

    def refuses(self, finding: Finding) -> bool:
        """Takes the newest finding. What says nothing about the key changes nothing: each new
        connection begins with that. Nor is a server that hangs up or is slow said to refuse."""
        if finding not in _UNDECIDED:
            self._is_refused = finding == Finding.REFUSED
        return self._is_refused


class Arriving(Protocol):
    """A connection that is being made."""

    @property
    def finding(self) -> Finding:
        """What is known about it so far."""
        ...

    def wait(self, timeout_ms: float) -> bool:
        """Whether something arrived within ``timeout_ms``."""
        ...


def taken_out(endpoint: str, key_file: Path) -> KeyRefusedError:
    """What a viewer says that had been let in."""
    return KeyRefusedError(endpoint, key_file, _TAKEN_OUT)


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
        raise KeyRefusedError(endpoint, key_file, _NOT_OPENED)
    if finding == Finding.NO_BUS:
        raise NoLiveRunError(f"{endpoint}: what listens there is no bus of a run for viewers")
    if finding == Finding.NOBODY_LISTENS:
        raise NoLiveRunError(f"{endpoint}: nobody listens there; has the run ended or moved?")
    if finding == Finding.NO_ANSWER:
        raise NoLiveRunError(
            f"{endpoint}: no answer within {timeout_s:.0f} s; the host is down, or a firewall is "
            "in between"
        )
