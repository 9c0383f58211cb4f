"""Waking the shipper from ``log()``: one byte through a pipe, and only if it sleeps."""

from __future__ import annotations

import os
import select
from contextlib import suppress

import zmq


class Wakeup:
    """A pipe that any thread or signal handler may write to; waking never waits."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)
        self.armed = False
        """Whether an append is worth waking for; set by the sleeper before its last look."""

    def wake(self) -> None:
        """Wake the sleeper; after an append only if it is ``armed``."""
        self.armed = False
        try:
            os.write(self._writing, b"\0")
        except OSError:
            # Full, so it will wake; or closed, so nobody sleeps.
            return

    def sleep(self, timeout_ms: int) -> None:
        """Called by the sleeper."""
        self.awake(woken=bool(self._poll.poll(timeout_ms)))

    def wait(self, timeout_s: float, poller: zmq.Poller | None = None) -> None:
        """Sleep, until woken or (with ``poller``, which polls us too) until a message comes."""
        timeout_ms = max(int(timeout_s * 1e3), 1)
        if poller is None:
            self.sleep(timeout_ms)
        else:
            ready = dict(poller.poll(timeout_ms))
            self.awake(woken=self.fileno() in ready)

    def awake(self, *, woken: bool) -> None:
        """Called by the sleeper after a sleep of its own."""
        self.armed = False
        if woken:
            try:
                while len(os.read(self._reading, 64)) == 64:
                    pass
            except OSError:
                return

    def fileno(self) -> int:
        """What to poll for reading."""
        return self._reading

    def close(self) -> None:
        """Idempotent."""
        if self._reading >= 0:
            reading, self._reading = self._reading, -1
            writing, self._writing = self._writing, -1
            for descriptor in (reading, writing):
                # Who makes a daemon of itself closes every descriptor, ours too.
                with suppress(OSError):
                    os.close(descriptor)
