"""The whole state as bytes and back. Pure.

A snapshot replaces older wal segments, so it must fit one record also when a run has very
many tags: names compress well.
"""

from __future__ import annotations

import zlib

import msgspec

from unilab_metrics.aggregate.folding.run_data import RunData

COMPRESS_FROM_BYTES = 1024 * 1024
MAX_DATA_BYTES = 256 * 1024 * 1024
"""Beyond any state within its limits; what claims to be more is damaged."""
_ZLIB = b"\x78"
"""First byte of compressed data; msgpack's arrays begin with others."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RunData)


def encode_snapshot(data: RunData) -> bytes:
    """The bytes of a snapshot record's payload."""
    encoded = _encoder.encode(data)
    return encoded if len(encoded) < COMPRESS_FROM_BYTES else zlib.compress(encoded, 1)


def decode_snapshot(snapshot: bytes) -> RunData:
    """What :func:`encode_snapshot` was given. Raises ``msgspec.MsgspecError`` on others."""
    if snapshot[:1] == _ZLIB:
        opened = zlib.decompressobj()
        try:
            snapshot = opened.decompress(snapshot, MAX_DATA_BYTES)
        except zlib.error as error:
            raise msgspec.DecodeError(str(error)) from error
        if opened.unconsumed_tail or not opened.eof:
            raise msgspec.DecodeError("not all of the snapshot")
    return _decoder.decode(snapshot)
