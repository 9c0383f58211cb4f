"""Splitting what would not fit into one history record. Pure.

An iteration of very many tags is one update and supplements to it; a record beyond its limit
could never be written, and would then fail again after every restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unilab_schema.codec import MAX_FRAME_BYTES

MAX_PIECE_BYTES = MAX_FRAME_BYTES - 4096
_VALUE_BYTES = 9


def ends_of_pieces(tags: Sequence[str], value_bytes: int = _VALUE_BYTES) -> Iterator[int]:
    """Where to cut ``tags`` so that a piece's names fit one record, and its values another.

    ``value_bytes``: of a tag, where they share a record with its name; they count with it then.
    The last end is ``len(tags)``, also of none.
    """
    size = 0
    for at, tag in enumerate(tags):
        # A character has at most 4 bytes in UTF-8 and a name at most 5 of header.
        length = (len(tag) if tag.isascii() else 4 * len(tag)) + 5 + value_bytes
        if size + length > MAX_PIECE_BYTES:
            yield at
            size = 0
        size += length
    yield len(tags)
