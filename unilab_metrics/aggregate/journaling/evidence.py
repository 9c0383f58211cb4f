"""What was on the disk when the last sync had succeeded, in a small file beside the journal.

A wal that ends too early was either torn off by a loss of power, which its sources make good, or
damaged later, which nobody does. Only somebody who knows how much had been safe can tell the two
apart. The file is rewritten in place and never synced: after a loss of power it may be gone, torn
or old, and then it claims too little, never too much.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.storage.bounded_reading import open_regular
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import SegmentWriter, read_at

DURABLE_FILE = "durable"
KIND_DURABLE = 97
"""The only record of the file; its payload is a :class:`Durable`."""
MAX_CURSORS = 4096
"""Sources whose cursors are kept, the newest."""
_VERSION = 1
_MAX_BYTES = 1024 * 1024


class KnownCursor(msgspec.Struct, frozen=True, array_like=True):
    """How far a source's records were in a wal, and the attempt that they belong to."""

    incarnation: bytes
    cursor: int
    attempt: int


class Durable(msgspec.Struct, frozen=True, array_like=True):
    """So much of the segments that were written to is on the disk, and what they said by then:
    the newest update sequence, and each source's cursor. ``accounted``: the newest update of which
    the cursors tell what its sources need not tell again, ``None`` for all of them."""

    version: int
    journal: bytes
    wal_name: str
    wal_bytes: int
    history_name: str
    history_bytes: int
    update: int
    cursors: tuple[KnownCursor, ...] = ()
    accounted: int | None = None

    @property
    def accounted_update(self) -> int:
        """As a number."""
        return self.update if self.accounted is None else min(self.accounted, self.update)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Durable)


def known_cursors(data: RunData) -> tuple[KnownCursor, ...]:
    """Those of the newest sources. What had been in a wal that is lost is in the history, though
    its source, set back or not here yet, sends it again: the next loss must not make that new."""
    told = [KnownCursor(bytes.fromhex(who), *known) for who, known in data.told.items()]
    here = [
        KnownCursor(s.identity.incarnation, max(s.cursor, s.told_through), s.attempt)
        for s in data.sources
    ]
    return tuple([*told, *here][-MAX_CURSORS:])


def durable(
    journal: bytes,
    wal: SegmentWriter,
    history: SegmentWriter,
    update: int,
    data: RunData,
) -> Durable:
    """What a sync that begins now makes true of the segments that are written to."""
    return Durable(
        _VERSION,
        journal,
        wal.path.name,
        wal.size_bytes,
        history.path.name,
        history.size_bytes,
        update,
        known_cursors(data),
        data.told_since if data.told_entries else None,
    )


def read_durable(bus_dir: Path) -> Durable | None:
    """What the file says; ``None`` if there is none, or none that can be believed."""
    try:
        fd = open_regular(bus_dir / DURABLE_FILE, follow=False)
    except OSError:
        return None
    try:
        data = read_at(fd, 0, _MAX_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    # What was longer once lies behind the record.
    record = next(iter(scan(data, kinds={KIND_DURABLE}).records), None)
    if record is None or record.start:
        return None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = _decoder.decode(record.payload)
        return found if found.version == _VERSION else None
    return None


def write_durable(bus_dir: Path, what: Durable) -> None:
    """A sync has succeeded. Never raises for what the disk refuses: without the file a damaged wal
    is taken for a torn one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError, ValueError):
        fd = os.open(bus_dir / DURABLE_FILE, flags, 0o600)
        try:
            os.pwrite(fd, encode_record(KIND_DURABLE, 0, _encoder.encode(what)), 0)
        finally:
            os.close(fd)
