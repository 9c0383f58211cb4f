"""The daemon thread ``replay_device_sync``: ingress slots to the device, batches ahead of use.

It overlaps with the learner's main thread: a slot is committed as soon as its collector has
published it, and the next iteration's rows are gathered while this one's update runs. Two
buffers make that safe: the main thread reads the hot one, this thread fills the cold one.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab_metrics.demo.ingress import IngressReader
from unilab_metrics.demo.replay import ReplayRing
from unilab_metrics.demo.shared import PeerLostError
from unilab_metrics.demo.slow import SlowOptions, wait

_MOST_COPY_SHARE = 0.35
"""Of an iteration: what the copies that are slow on purpose may take, so that no update waits
for its rows."""


class ReplaySync:
    """Owns the replay and the reading end of the ingress. Its methods are for the main thread."""

    def __init__(
        self,
        replay: ReplayRing,
        ingress: IngressReader,
        *,
        batch_rows: int,
        seed: int,
        slow: SlowOptions | None = None,
        slots_per_iteration: int = 1,
    ) -> None:
        """``slow``: whether gathering or copying takes longer than it could."""
        slow = slow or SlowOptions()
        self._gather_wait_s = slow.wait_s("prefetch")
        self._copy_wait_s = slow.wait_s("submit")
        self._most_copy_share = _MOST_COPY_SHARE / slots_per_iteration
        self._asked_s: deque[float] = deque(maxlen=3)
        self._replay = replay
        self._ingress = ingress
        self._generator = torch.Generator().manual_seed(seed)
        self._hot = torch.zeros((batch_rows, replay.layout.width))
        self._cold = torch.zeros_like(self._hot)
        self._gathered = threading.Event()
        self._grown = threading.Event()
        self._stop = False
        self._gather_asked = False
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name="replay_device_sync", daemon=True)
        self.layout = replay.layout
        """Columns of the rows."""
        self.rows = 0
        """Rows in the replay."""
        self.submit_ns: int | None = None
        """Duration of the last copy to the device, ``None`` before the first."""
        self.collector_gone = False
        """The collector's end of the ring is closed and empty."""
        self.failure: BaseException | None = None
        """What ended the thread before its time."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wait_rows(self, rows: int, timeout_s: float) -> bool:
        """Waits until the replay holds that many rows; false after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while self.rows < rows:
            self._grown.clear()
            left_s = deadline - time.monotonic()
            if self.rows >= rows:
                break
            if left_s <= 0 or self.collector_gone or self.failure is not None:
                return False
            self._grown.wait(left_s)
        return True

    def prefetch(self) -> None:
        """Asks for the next rows; the thread gathers them after what is published by now."""
        self._asked_s.append(time.monotonic())
        self._gathered.clear()
        self._gather_asked = True
        os.write(self._wake_writer, b"\0")

    def wait_gathered(self, timeout_s: float) -> bool:
        """Waits for the rows that were asked for; false after ``timeout_s``.

        True as well when the thread has failed: look at ``failure``.
        """
        return self._gathered.wait(timeout_s)

    def take(self) -> Tensor:
        """The gathered rows. They stay as they are until the next :meth:`take`."""
        self._hot, self._cold = self._cold, self._hot
        return self._hot

    def close(self) -> None:
        """Ends the thread; what is published by now is committed first. May be repeated."""
        if self._stop:
            return
        self._stop = True
        os.write(self._wake_writer, b"\0")
        self._thread.join()
        os.close(self._wake_writer)
        os.close(self._wake_reader)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # noqa: BLE001 (the main thread raises it)
            self.failure = error
        self._grown.set()
        self._gathered.set()

    def _loop(self) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        poll.register(self._ingress.published.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4096)
            if self._ingress.published.fileno() in ready:
                try:
                    self._ingress.published.drain()
                except PeerLostError:
                    poll.unregister(self._ingress.published.fileno())
                    self._commit()
                    self.collector_gone = True
            self._commit()
            if self._gather_asked:
                self._gather_asked = False
                wait(self._gather_wait_s)
                self._replay.gather(self._cold, self._generator)
                self._gathered.set()
            if self._stop:
                return

    def _commit(self) -> None:
        self._ingress.take(self._append)
        self.rows = self._replay.size
        self._grown.set()

    def _append(self, rows: NDArray[np.float32]) -> None:
        started = time.perf_counter_ns()
        self._replay.append(rows)
        if self._copy_wait_s:
            wait(min(self._copy_wait_s, self._iteration_s() * self._most_copy_share))
        self.submit_ns = time.perf_counter_ns() - started

    def _iteration_s(self) -> float:
        """The shorter of the last two iterations, 0 before there are two."""
        asked = list(self._asked_s)
        if len(asked) < 3:
            return 0.0
        return min(asked[1] - asked[0], asked[2] - asked[1])
