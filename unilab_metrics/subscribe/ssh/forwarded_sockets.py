"""The sockets here that lead to an aggregator of the other machine: asked for, then tried."""

from __future__ import annotations

import os
import time

from unilab_metrics.errors import ExitCode, SshError
from unilab_metrics.subscribe.ssh.command_lines import Forward
from unilab_metrics.subscribe.ssh.judging import RemoteBus
from unilab_metrics.subscribe.ssh.probe import Probe
from unilab_metrics.subscribe.ssh.tunnel import Tunnel
from unilab_metrics.transport.routes import Route

ARRANGE_S = 10.0
"""So long may a connection that stands take to forward one more socket."""


class ForwardedSockets:
    """Owned by one thread; nothing here waits. ``is_refused``: nobody listened at the last ones."""

    def __init__(self) -> None:
        self._count = 0
        self._forwards: tuple[Forward, Forward] | None = None
        self._probe: Probe | None = None
        self._until_s = 0.0
        self.is_refused = False

    @property
    def is_open(self) -> bool:
        """Whether it is not known yet what they lead to."""
        return self._forwards is not None

    def begin(self, tunnel: Tunnel, bus: RemoteBus) -> None:
        """Ask for new ones. Raises :class:`SshError`."""
        self.close()
        self._count += 1
        stem = os.fspath(tunnel.place / str(self._count))
        self._forwards = Forward(f"{stem}.out", bus.announce), Forward(f"{stem}.ask", bus.fetch)
        tunnel.forward(self._forwards)
        self._until_s = time.monotonic() + ARRANGE_S

    def step(self, tunnel: Tunnel) -> Route | None:
        """The way to whoever listens there, once. Raises :class:`SshError` if there are none, and
        ``OSError``."""
        if self._forwards is None:
            return None
        announce, fetch = self._forwards
        if self._probe is None:
            problem = tunnel.forwarding()
            if problem is None and time.monotonic() > self._until_s:
                problem = "ssh does not answer"
            if problem:
                self.close()
                reason = f"its sockets cannot be forwarded: {problem}"
                raise SshError(tunnel.target.destination, reason, ExitCode.NO_LIVE_RUN)
            if problem is not None:
                self._probe = Probe(fetch.local)
            return None
        is_found = self._probe.found()
        if is_found is None:
            return None
        self.close()
        self.is_refused = not is_found
        return Route("", f"ipc://{announce.local}", f"ipc://{fetch.local}") if is_found else None

    def close(self) -> None:
        """Try no more; idempotent."""
        self._forwards, self.is_refused = None, False
        if self._probe is not None:
            self._probe.close()
            self._probe = None
