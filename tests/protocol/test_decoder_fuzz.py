"""Mutated good bytes in every decoder: only documented exceptions, in bounded time and memory.

``make fuzz`` runs the same targets with coverage feedback.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from zlib import crc32

import pytest
from fuzz_targets import TARGETS, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unilab_metrics.storage.records import HEADER, HEADER_BYTES, MAGIC, MAX_PAYLOAD_BYTES

EXAMPLES = 60
MAX_SECONDS = 20.0
"""Far beyond what any hostile input takes; it tells quadratic from linear, not fast from slow."""
MAX_BYTES = 64 * 1024 * 1024
HOSTILE = {
    "empty": b"",
    "version only": b"\x01",
    "deep array": b"\x01" + b"\x91" * 200_000,
    "deep map": b"\x01" + b"\x81\xa1a" * 100_000,
    "deep JSON": b'{"version": 1, "x": ' + b"[" * 200_000,
    "deep short JSON": b'{"version": 1, "x": ' + b"[" * 3_000,
    "huge array": b"\x01\xdd\xff\xff\xff\xff",
    "huge bytes": b"\x01\xc6\xff\xff\xff\xff",
    "huge map": b"\x01\xdf\xff\xff\xff\xff",
    "no UTF-8": b"\x01\x92\x00\x91\xa2\xed\xa0",
    "no UTF-8 in JSON": b'{"version": 1, "run_dir": "\xed\xa0"}',
    "zeros": bytes(100_000),
    "prefixes": b"um\x01" * 50_000,
    "headers of huge records": HEADER.pack(MAGIC, 1, 3, MAX_PAYLOAD_BYTES, 1, 0) * 4_000,
    "other version": HEADER.pack(MAGIC, 9, 3, 0, 1, 0) * 100,
    "event of 256 MiB": struct.pack("<Q", 256 * 1024 * 1024) * 10,
}


def _sealed(data: bytes) -> bytes:
    """The same bytes with every record's checksum made right again."""
    out = bytearray(data)
    at = out.find(MAGIC + b"\x01")
    while at >= 0 and at + HEADER_BYTES <= len(out):
        length = HEADER.unpack_from(out, at)[3]
        end = at + HEADER_BYTES + length
        if end <= len(out):
            crc = crc32(out[at + HEADER_BYTES : end], crc32(out[at : at + 16]))
            out[at + 16 : at + 20] = struct.pack("<I", crc)
            at = out.find(MAGIC + b"\x01", end)
        else:
            at = out.find(MAGIC + b"\x01", at + 1)
    return bytes(out)


@st.composite
def _mutated(draw: st.DrawFn, name: str) -> bytes:
    data = bytearray(draw(st.sampled_from(seeds(name))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(("cut", "bit", "byte", "insert", "integer", "repeat", "drop"))):
            case "cut":
                del data[at:]
            case "bit" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "byte" if data:
                data[at] = draw(st.sampled_from((0x00, 0x7F, 0x80, 0xC0, 0xC1, 0xDD, 0xDF, 0xFF)))
            case "integer":
                data[at : at + 4] = draw(st.integers(0, 2**32 - 1)).to_bytes(4, "little")
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 60))] * draw(st.integers(1, 20))
            case "drop":
                del data[at : at + draw(st.integers(1, 40))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=12))
    return _sealed(bytes(data)) if draw(st.booleans()) else bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_good_bytes_are_taken(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_raise_only_what_is_documented(name: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(_mutated(name))
    def mutated(data: bytes) -> None:
        TARGETS[name](data)

    mutated()


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_take_bounded_time_and_memory(name: str) -> None:
    for what, data in HOSTILE.items():
        tracemalloc.start()
        began_s = time.monotonic()
        try:
            TARGETS[name](data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.monotonic() - began_s < MAX_SECONDS, what
        assert peak < MAX_BYTES, what
