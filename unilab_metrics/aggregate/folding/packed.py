"""Packed values: little-endian float64 and int64, as frames and updates hold them. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

_F8: np.dtype[np.float64] = np.dtype("<f8")
_I8: np.dtype[np.int64] = np.dtype("<i8")
_U4: np.dtype[np.uint32] = np.dtype("<u4")


def unpack_values(data: bytes) -> Float64s:
    """A read-only view of packed float64. Raises ``ValueError`` if bytes are left over."""
    return np.frombuffer(data, _F8)


def pack_values(values: Float64s) -> bytes:
    """Packed float64."""
    return values.astype(_F8, copy=False).tobytes()


def pack_columns(columns: NDArray[np.intp]) -> bytes:
    """Packed uint32."""
    return columns.astype(_U4, copy=False).tobytes()


def unpack_columns(data: bytes) -> NDArray[np.intp]:
    """Column numbers. Raises ``ValueError`` if bytes are left over."""
    return np.frombuffer(data, _U4).astype(np.intp)


def unpack_integers(data: bytes) -> Int64s:
    """A read-only view of packed int64. Raises ``ValueError`` if bytes are left over."""
    return np.frombuffer(data, _I8)


def pack_integers(values: Int64s) -> bytes:
    """Packed int64."""
    return values.astype(_I8, copy=False).tobytes()
