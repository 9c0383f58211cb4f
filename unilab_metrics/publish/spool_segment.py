"""One segment of one's own spool, and where each of its records ends."""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

from unilab_metrics import crash_points
from unilab_metrics.storage.descriptors import Held, out_of_the_way
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import read_at
from unilab_metrics.storage.spool_reader import SOURCE_KINDS

_AGAIN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class SpoolSegment:
    """Written under the spool's lock; read by the shipper's thread, which sees a record once
    its end is in ``ends``. The preamble repeats identity and layouts with sequence 0.

    One descriptor for both, so that the segment stays readable if its file is deleted.
    """

    def __init__(self, path: Path, first: int, preamble: bytes) -> None:
        """A new file, mode 0600. Raises ``OSError``, and then leaves none."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path = path
        self.first = first
        self.ends: array[int] = array("Q")
        self.stamps: array[int] = array("q")
        self.size_bytes = 0
        """Bytes up to the last record that counts."""
        self.is_damaged = False
        """Whether what is read from it has to be checked."""
        self._preamble_bytes = 0
        self._file = Held(out_of_the_way(os.open(path, flags, 0o600)))
        self._fd = self._file.fd
        try:
            if os.write(self._fd, preamble) != len(preamble):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:
            self.delete()
            raise
        self.size_bytes = self._preamble_bytes = len(preamble)

    @property
    def last(self) -> int:
        """The highest sequence here; ``first - 1`` while there is none."""
        return self.first + len(self.ends) - 1

    def append(self, record: bytes, mono_ns: int) -> None:
        """Write one record and count it, or raise ``OSError``.

        What an exception left in the file is not counted: see :meth:`discard_uncounted`.
        """
        size = len(record)
        if crash_points.armed:
            crash_points.write("publisher.append", self._fd, record)
        if os.write(self._fd, record) != size:
            self.discard_uncounted()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.stamps.append(mono_ns)
        self.size_bytes += size
        self.ends.append(self.size_bytes)

    def discard_uncounted(self) -> None:
        """Cut what an interrupted append left behind. Raises ``OSError``."""
        self._check_ours()
        del self.stamps[len(self.ends) :]
        self.size_bytes = self.ends[-1] if self.ends else self._preamble_bytes
        # A shorter file is somebody else's doing; bytes put there would hide it.
        if os.fstat(self._fd).st_size > self.size_bytes:
            os.ftruncate(self._fd, self.size_bytes)

    def restart(self, first: int, preamble: bytes) -> None:
        """Give back the room of records that nobody needs any more; ``first`` comes next.
        ``preamble``: what the file begins with, and more. Raises ``OSError``."""
        self._check_ours()
        os.ftruncate(self._fd, self._preamble_bytes)
        self.first, self.ends, self.stamps = first, array("Q"), array("q")
        self.size_bytes = self._preamble_bytes
        added = preamble[self._preamble_bytes :]
        if added and os.write(self._fd, added) != len(added):
            self.discard_uncounted()
        else:
            self.size_bytes = self._preamble_bytes = len(preamble)

    def range_after(self, after: int, upto: int, max_bytes: int) -> tuple[int, int, int]:
        """(start, end, last sequence) of the bytes with ``after + 1`` to at most ``upto``: at
        least one record, and no more than ``max_bytes`` otherwise."""
        ends = self.ends
        index = after + 1 - self.first
        start = ends[index - 1] if index else self._preamble_bytes
        beyond = min(upto, self.last) - self.first + 1
        stop = max(bisect_right(ends, start + max_bytes, index, beyond), index + 1)
        return start, ends[stop - 1], self.first + stop - 1

    def read(self, start: int, end: int) -> bytes:
        """Bytes of the file; shorter where it cannot be read."""
        try:
            return read_at(self._fd, start, end - start)
        except OSError:
            return b""

    @property
    def is_ours(self) -> bool:
        """Whether our descriptor is still our file's: somebody may have closed it."""
        return self._file.is_ours

    @property
    def is_short(self) -> bool:
        """Whether bytes that were written are gone: somebody has shortened the file."""
        written = self.size_bytes
        try:
            return os.fstat(self._fd).st_size < written
        except (OSError, OverflowError):
            return False

    def index_again(self, acked: int) -> int:
        """Find the records of a shortened file, to which nobody appends any more. How many beyond
        ``acked`` are gone: ranges with them hold no bytes of theirs, but may hold others, so
        that who reads has to check them. Raises ``OSError``."""
        size = os.fstat(self._fd).st_size
        found = scan(read_at(self._fd, 0, size), kinds=SOURCE_KINDS).records
        end_of = {record.sequence: record.end for record in found}
        ends, reached, lost = array("Q"), 0, 0
        for sequence in range(self.first, self.last + 1):
            end = end_of.get(sequence)
            reached = reached if end is None else max(end, reached)
            ends.append(reached)
            lost += end is None and sequence > acked
        self.ends, self.size_bytes, self._preamble_bytes = ends, size, 0
        self.is_damaged = True
        return lost

    def find_again(self) -> int:
        """Open the file anew by its name. The last sequence that is in it: what was appended
        since has gone elsewhere, and is passed over by who reads. Raises ``OSError`` if the file
        cannot be opened."""
        self._file.close()
        self._fd = -1
        again = Held(out_of_the_way(os.open(self.path, _AGAIN)))
        if again.file != self._file.file:
            again.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        size = os.fstat(again.fd).st_size
        if size != self.size_bytes:
            os.ftruncate(again.fd, self.size_bytes)
        self._file, self._fd = again, again.fd
        return self.first - 1 + bisect_right(self.ends, size)

    def _check_ours(self) -> None:
        """Nothing is cut off a file that is not ours."""
        if not self._file.is_ours:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        self._file.close()
        self._fd = -1

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        with suppress(OSError):
            self.path.unlink()
