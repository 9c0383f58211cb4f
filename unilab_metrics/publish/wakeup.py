"""Waking the shipper from ``log()``: one byte through a pipe, and only if it sleeps."""

from __future__ import annotations

import os
import select

import zmq

from unilab_metrics.storage.descriptors import Held, out_of_the_way


class Wakeup:
    """A pipe that any thread or signal handler may write to; waking never waits."""

    def __init__(self) -> None:
        self._open()
        self.armed = False
        """Whether an append is worth waking for; set by the sleeper before its last look."""

    def _open(self) -> None:
        reading, writing = os.pipe()
        self._reading, self._writing = Held(out_of_the_way(reading)), Held(out_of_the_way(writing))
        os.set_blocking(self._reading.fd, False)
        os.set_blocking(self._writing.fd, False)
        self._poll = select.poll()
        self._poll.register(self._reading.fd, select.POLLIN)

    def reclaim(self) -> bool:
        """Another pipe, if somebody has closed this one: who polls has to poll that. Called by
        the sleeper; whether there is another one. Raises ``OSError``."""
        if self._reading.is_ours and self._writing.is_ours:
            return False
        self.close()
        self._open()
        return True

    def wake(self) -> None:
        """Wake the sleeper; after an append only if it is ``armed``."""
        self.armed = False
        try:
            os.write(self._writing.fd, b"\0")
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
                while len(os.read(self._reading.fd, 64)) == 64:
                    pass
            except OSError:
                return

    def fileno(self) -> int:
        """What to poll for reading."""
        return self._reading.fd

    def close(self) -> None:
        """Idempotent."""
        self._reading.close()
        self._writing.close()
