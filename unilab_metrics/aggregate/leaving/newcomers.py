"""Processes of this node that publish already and have not said Hello yet, and ranks of other
nodes of which it is known that they will.

A collector's first reports lie in its spool before the aggregator knows that there is a
collector. Sealing the first iteration without them would put them into the second one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from unilab_metrics.aggregate.folding.attendance import joined_ranks, missing_learners
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.storage import lease
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments, open_segment, read_at
from unilab_metrics.storage.spool_reader import LEASE_NAME, SOURCE_KINDS, SPOOL_PREFIX
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload
from unilab_schema.identity import Identity

WAIT_S = 2.0
"""How long one newcomer is waited for; one that is refused never says a Hello that counts."""
ABSENT_S = 10.0
"""How long a rank of another node is waited for."""
_MEETING_S = 30.0
"""Ranks that begin together on several nodes have found each other by then: counted from
``init()``, after which all of torch may still have to be imported."""
_SETTLED_NS = 100_000_000
"""A directory's time stamp is coarse: only an old one shows that nothing was added since."""
_HEAD_BYTES = 16 * 1024


class Newcomers:
    """Looks into the launch's spool directories. Owned by the aggregator's main thread."""

    def __init__(self, roots: Sequence[Path], is_known: Callable[[bytes], bool]) -> None:
        """``is_known``: whether the incarnation has been admitted."""
        self._roots = roots
        self._is_known = is_known
        self._scanned_ns: dict[Path, int] = {}
        self._ranks: dict[Path, int] = {}
        self._first_seen_mono_ns: dict[Path, int] = {}

    def ranks(self) -> frozenset[int]:
        """Ranks of newcomers that are worth waiting for."""
        for root in self._roots:
            self._look(root)
        now = time.monotonic_ns()
        return frozenset(
            rank
            for directory, rank in list(self._ranks.items())
            if self._is_awaited(directory, now)
        )

    def _is_awaited(self, directory: Path, now: int) -> bool:
        seen = self._first_seen_mono_ns.setdefault(directory, now)
        is_over = (
            now - seen > WAIT_S * 1e9
            or self._is_known(_incarnation(directory))
            or lease.is_free(directory / LEASE_NAME)
        )
        if is_over:
            del self._ranks[directory]
        return not is_over

    def _look(self, root: Path) -> None:
        try:
            changed_ns = os.stat(root).st_mtime_ns
            if self._scanned_ns.get(root) == changed_ns:
                return
            names = os.listdir(root)
        except OSError:
            return
        if time.time_ns() - changed_ns > _SETTLED_NS:
            self._scanned_ns[root] = changed_ns
        for name in names:
            directory = root / name
            if directory in self._first_seen_mono_ns or self._is_known(_incarnation(directory)):
                continue
            identity = _identity(directory)
            if identity is not None:
                self._ranks[directory] = identity.key.rank
                self._first_seen_mono_ns[directory] = time.monotonic_ns()


class Announced:
    """Ranks that have been let in by a key of their own and have not said Hello in this attempt;
    also any other one, if the attempt was over before ranks of other nodes can have found it.

    To be asked when nobody else is there any more: from then on each is waited for once.
    Owned by the aggregator's main thread.
    """

    def __init__(
        self, data: RunData, announced: Callable[[], frozenset[int]], *, listens: bool
    ) -> None:
        """``announced``: ranks with a key. ``listens``: whether other nodes can reach us."""
        self._data = data
        self._announced = announced
        self._listens = listens
        self._attempt = -1
        self._since_mono_ns: dict[int, int] = {}

    def ranks(self) -> frozenset[int]:
        """Those that are worth waiting for."""
        data = self._data
        if self._attempt != data.attempt:
            self._attempt = data.attempt
            self._since_mono_ns.clear()
        if not missing_learners(data):
            return frozenset()
        now = time.monotonic_ns()
        is_short = data.elapsed_s - data.earlier_elapsed_s < _MEETING_S
        coming = range(data.expected_learners)
        if not (is_short and self._listens):
            coming = self._announced().intersection(coming)
        return frozenset(
            rank
            for rank in set(coming) - joined_ranks(data)
            if now - self._since_mono_ns.setdefault(rank, now) <= ABSENT_S * 1e9
        )


def _incarnation(directory: Path) -> bytes:
    try:
        return bytes.fromhex(directory.name)
    except ValueError:
        return b""


def _identity(directory: Path) -> Identity | None:
    for path in list_segments(directory, SPOOL_PREFIX):
        try:
            fd = open_segment(path)
        except OSError:
            continue
        try:
            data = read_at(fd, 0, _HEAD_BYTES)
        finally:
            os.close(fd)
        for record in scan(data, kinds=SOURCE_KINDS, complete=False).records:
            if record.kind == RecordKind.IDENTITY:
                try:
                    return decode_payload(record.kind, record.payload)
                except FrameDecodeError:
                    return None
    return None
