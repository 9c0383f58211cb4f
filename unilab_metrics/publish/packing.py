"""An iteration frame as msgpack, by ``struct`` alone. Pure.

The same bytes in meaning as ``encode_payload(IterationFrame(...))``, with integers of fixed
width. In a loop of 10 ms the caches have gone cold, and then each further library on the way
costs more than all the work that it does; ``struct`` is there already for the values.
"""

from __future__ import annotations

from struct import Struct

_ARRAY_9 = 0x99
_UINT64 = 0xCF
_BIN32 = 0xC6
_WITH_STEPS = Struct(">BBBQBQBQBQBI")
_WITHOUT_STEPS = Struct(">BBBQBBQBQBI")
_NIL = 0xC0
# Empty weights, then the flags ``more`` and ``already_reduced``.
_TAILS = {
    (more, reduced): b"\xc4\x00" + bytes([0xC2 + more, 0xC2 + reduced])
    for more in (False, True)
    for reduced in (False, True)
}


def pack_iteration(
    mono_ns: int,
    unix_ns: int,
    layout: int,
    iteration: int,
    env_steps: int | None,
    values: bytes,
    more: bool,
    already_reduced: bool,
) -> bytes:
    """A frame without weights. ``layout``: 0..127; the other integers: 0..2**64-1."""
    if env_steps is None:
        head = _WITHOUT_STEPS.pack(
            _ARRAY_9, layout, _UINT64, iteration, _NIL,
            _UINT64, mono_ns, _UINT64, unix_ns, _BIN32, len(values),
        )  # fmt: skip
    else:
        head = _WITH_STEPS.pack(
            _ARRAY_9, layout, _UINT64, iteration, _UINT64, env_steps,
            _UINT64, mono_ns, _UINT64, unix_ns, _BIN32, len(values),
        )  # fmt: skip
    return head + values + _TAILS[more, already_reduced]
