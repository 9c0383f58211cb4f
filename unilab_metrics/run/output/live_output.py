"""The training's output on our own standard output, or kept back while a screen has it.

Nothing here waits for a reader that is slow, and what was said last is remembered.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Callable

from unilab_metrics.console_tail import tail_lines

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 4096
"""A pipe that can be written to takes this much at once."""
_MOST_PENDING_BYTES = 256 * 1024
_TAIL_BYTES = 64 * 1024
_MOST_DRAINED_BYTES = 16 * 1024 * 1024
"""More than all pipes on the way hold."""


class LiveOutput:
    """Owned by one thread, which calls :meth:`pump` instead of sleeping. Never raises."""

    def __init__(self, source: int | None, *, output: int = 1, is_shown: bool = True) -> None:
        """``source``: the tee of a capture, not blocking anybody; ``None`` for lines only."""
        self._sources: list[int] = []
        self._source = source
        self._output = output
        self.is_shown = is_shown
        """Whether the training's bytes go to the output at once."""
        self._pending = b""
        self._tail = b""
        self._taken_bytes = 0
        self._is_cut = False
        self._is_gone = False
        self._at_line_start = True
        self._has_broken = False
        self._kept_back = False
        if source is not None:
            self._sources.append(source)

    def listen(self, fd: int) -> None:
        """Show whole lines from ``fd`` too, until it ends: those of a plain view."""
        os.set_blocking(fd, False)
        self._sources.append(fd)

    def forget(self, fd: int) -> None:
        """Take what is still in it, and listen no more."""
        if fd in self._sources:
            self._take(fd)
            if fd in self._sources:
                self._sources.remove(fd)

    @property
    def is_over(self) -> bool:
        """Whether the training's output has ended."""
        return self._source not in self._sources

    def pump(self, timeout_s: float) -> None:
        """Pass on what comes, for this long."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            has_room = len(self._pending) < _MOST_PENDING_BYTES
            writers = [self._output] if self._pending else []
            try:
                ready, writable, _ = select.select(
                    self._sources if has_room else [], writers, [], left_s
                )
            except (OSError, ValueError):
                time.sleep(left_s)
                return
            if writable:
                self._write(_WRITE_BYTES)
            for fd in ready:
                self._take(fd)

    def drain(self, timeout_s: float, is_patient: Callable[[], bool] = lambda: False) -> None:
        """Until the training's output has ended and all of it is written, at most this long; the
        time in which it waits for its reader does not count while ``is_patient``."""
        left_s, taken_bytes = timeout_s, self._taken_bytes
        while not (self.is_over and not self._pending) and left_s > 0:
            began_s, had_to_wait = time.monotonic(), bool(self._pending)
            self.pump(0.02)
            # Something may write for ever what nobody reads in time.
            is_endless = self._taken_bytes - taken_bytes > _MOST_DRAINED_BYTES
            if not (had_to_wait and self._pending and is_patient()) or is_endless:
                left_s -= time.monotonic() - began_s

    def say(self, *lines: str) -> None:
        """Lines of our own, at once, each whole."""
        text = "\n".join(lines) + "\n"
        self._put(text.encode("utf-8", "replace"), is_line=True)
        deadline_s = time.monotonic() + 1.0
        while self._pending and time.monotonic() < deadline_s:
            self.pump(0.02)

    def take_kept_back(self, count: int) -> list[str]:
        """The last lines of what was not shown, if something was not; then it counts as shown."""
        kept_back, self._kept_back = self._kept_back, False
        return tail_lines(self._tail, count, is_cut=self._is_cut) if kept_back else []

    def last_lines(self, count: int) -> list[str]:
        """The last lines of the training, shown or not."""
        return tail_lines(self._tail, count, is_cut=self._is_cut)

    def _take(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._sources.remove(fd)
        elif fd != self._source:
            self._put(data, is_line=True)
        else:
            self._taken_bytes += len(data)
            self._is_cut = self._is_cut or len(self._tail) + len(data) > _TAIL_BYTES
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
            if self.is_shown:
                self._put(data, is_line=False)
            else:
                self._kept_back = True

    def _put(self, data: bytes, *, is_line: bool) -> None:
        if not data or self._is_gone:
            return
        if is_line and not self._at_line_start:
            data = b"\n" + data
            self._has_broken = True
        elif not is_line and self._has_broken:
            # The end of the line that one of ours has broken off already.
            data = data.removeprefix(b"\r").removeprefix(b"\n") if _ends_line(data) else data
            self._has_broken = False
            if not data:
                return
        self._at_line_start = data.endswith(b"\n")
        self._pending += data

    def _write(self, most_bytes: int) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                written = os.write(self._output, self._pending[:most_bytes])
            except BlockingIOError:
                raise
            except OSError as error:
                # A disk may have room again; a reader or a terminal does not come back.
                self._is_gone = error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
                written = len(self._pending)
            self._pending = self._pending[written:]


def _ends_line(data: bytes) -> bool:
    return data.startswith((b"\n", b"\r\n"))
