"""Requests of subscribers and their replies: tagged msgpack arrays on DEALER/ROUTER.

:class:`Fetch`, :class:`Latest`, :class:`History`, :class:`Ranks` and :class:`Console` are answered by
:class:`Updates`, :class:`Snapshot`, :class:`Blocks`, :class:`RankValues` and :class:`ConsolePiece`.
"""

from __future__ import annotations

import msgspec

from unilab_schema.control import BackendStatus, Epoch
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.updates import BinBlock, UpdateLayout


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Ask for the history entries with sequences beyond ``after``, at most ``limit``.

    ``tags``: only what updates, supplements and points say of these, without what says nothing of
    them, and without events and blobs. ``kinds``: only records of these kinds. Empty: all. An
    aggregator that is older than these two answers with everything. ``known``: marks of layouts
    that need not be sent, see ``layout_marks``; an older aggregator sends them too.
    """

    request: int
    after: int
    limit: int = 1000
    tags: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    known: tuple[bytes, ...] = ()


class Updates(msgspec.Struct, frozen=True, array_like=True, tag="updates"):
    """History records verbatim, with every layout that they refer to and that the request does not
    name as known; of some tags only, as they would be if the run had no others.

    ``last``: sequence of the last record here, or the asked ``after`` when there is none; where a
    part was asked for, that of the last record that was looked at.
    """

    request: int
    epoch: Epoch
    last: int
    layouts: tuple[UpdateLayout, ...]
    records: bytes


class Latest(msgspec.Struct, frozen=True, array_like=True, tag="latest"):
    """Ask for the newest value of every tag that the run has shown so far."""

    request: int


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag="snapshot"):
    """Newest values as of ``update``; ``values`` and ``updates`` are packed ``<d`` and ``<q``
    in the order of ``tags``: the value and the update sequence that carried it."""

    request: int
    epoch: Epoch
    update: int
    tags: tuple[str, ...]
    values: bytes
    updates: bytes


class History(msgspec.Struct, frozen=True, array_like=True, tag="history"):
    """Ask for a long stretch in brief: blocks of updates beyond ``after``, for these tags.

    ``tags``: empty for all. The reply reaches as far as it fits; ask again from its ``last``.
    What is newer than the last whole block comes with :class:`Fetch`.
    """

    request: int
    after: int = 0
    tags: tuple[str, ...] = ()


class Blocks(msgspec.Struct, frozen=True, array_like=True, tag="blocks"):
    """Answer to :class:`History`. ``complete``: there are no further whole blocks yet.

    ``first`` and ``last``: the history entries that these blocks tell all about, also where they
    hold none of the tags. Nothing is told where ``last`` is below ``first``; what lies between
    the asked ``after`` and ``first`` comes with :class:`Fetch`. Both are 0 from aggregators that
    do not say it.
    """

    request: int
    epoch: Epoch
    blocks: tuple[BinBlock, ...]
    complete: bool
    first: int = 0
    last: int = 0


class Ranks(msgspec.Struct, frozen=True, array_like=True, tag="ranks"):
    """Ask for the value that each source has of these tags, see :class:`RankRow`.

    ``tags``: empty for the first hundred that any of them has.
    """

    request: int
    tags: tuple[str, ...] = ()


class RankValues(msgspec.Struct, frozen=True, array_like=True, tag="rank_values"):
    """Answer to :class:`Ranks`: a view of the moment, which may be ahead of the journal.

    ``rows`` in the order of their keys, the newest process of each place; ``spreads`` per tag,
    over all of them. What one message cannot hold is left out and counted: ``left_out_tags`` of
    those that were asked for, ``left_out_rows`` of the sources. ``mono_ns``: the aggregator's
    clock. ``expected_learners``: how many learner ranks the run has.
    """

    request: int
    epoch: Epoch
    attempt: int
    mono_ns: int
    expected_learners: int
    tags: tuple[str, ...]
    rows: tuple[RankRow, ...]
    spreads: tuple[RankSpread, ...]
    left_out_tags: int = 0
    left_out_rows: int = 0


class Console(msgspec.Struct, frozen=True, array_like=True, tag="console"):
    """Ask for a piece of what the training has printed: what lies behind the place ``offset`` of
    ``file``, as an earlier answer has named them, or with ``before`` what ends there.

    ``file``: empty for the end of what there is. ``most_bytes``: of the answer; the aggregator may
    give less. What lies behind the place and does not fit is passed over, not what is newest.
    """

    request: int
    file: str = ""
    offset: int = 0
    before: bool = False
    most_bytes: int = 65536


class ConsolePiece(msgspec.Struct, frozen=True, array_like=True, tag="console_piece"):
    """Answer to :class:`Console`: ``data`` as it was printed, of one file, from ``offset`` on.

    ``file``: names the file as long as it exists, whatever it is called; empty if none is kept.
    ``passed_over_bytes``: lie between the place that was asked for and ``data``. ``moved``: that
    place exists no more, and ``data`` is the end of what there is. ``begins``: nothing older is
    kept. ``problem``: why nothing can be read, for people.
    """

    request: int
    file: str = ""
    offset: int = 0
    data: bytes = b""
    passed_over_bytes: int = 0
    moved: bool = False
    begins: bool = False
    problem: str = ""


class BackendProgress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    """A writer tells the aggregator what its backend holds (on the fetch socket; no reply)."""

    status: BackendStatus


Request = Fetch | Latest | History | Ranks | Console | BackendProgress
Reply = Updates | Snapshot | Blocks | RankValues | ConsolePiece
