"""Texts, histograms and images as chunks that fit a record. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from unilab_schema.frames import BlobFrame, BlobKind

CHUNK_BYTES = 128 * 1024
MAX_BLOB_BYTES = 32 * 1024 * 1024
HISTOGRAM_BUCKETS = 64


def chunks(
    blob: int, kind: BlobKind, tag: str, step: int, unix_ns: int, data: bytes, mime: str = ""
) -> list[BlobFrame]:
    """``data`` in order. Raises ``ValueError`` beyond 32 MiB."""
    if len(data) > MAX_BLOB_BYTES:
        raise ValueError(f"a {kind} of {len(data)} bytes, the limit is {MAX_BLOB_BYTES}")
    starts = range(0, len(data), CHUNK_BYTES) if data else range(1)
    return [
        BlobFrame(
            blob,
            kind,
            tag,
            step,
            unix_ns,
            data[start : start + CHUNK_BYTES],
            part,
            len(starts),
            mime,
        )
        for part, start in enumerate(starts)
    ]


def histogram(values: Any) -> bytes:
    """The finite ``values`` in 64 equal buckets, as msgpack ``[limits, counts, min, max, total,
    sum, sum of squares]``.

    ``limits[i]`` is the upper edge of bucket ``i``; bucket 0 is empty and ends at the minimum,
    so that the limits are also all edges. Raises ``ValueError`` without a finite value.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    numbers: NDArray[np.float64] = np.asarray(values, dtype=np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        raise ValueError("a histogram without a finite value")
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        # NumPy would widen this to ±0.5, which hides where a tiny value lies.
        margin = abs(low) * 1e-3 or 1e-3
        counts, edges = np.histogram(finite, HISTOGRAM_BUCKETS, (low - margin, high + margin))
    else:
        counts, edges = np.histogram(finite, HISTOGRAM_BUCKETS, (low, high))
    return msgspec.msgpack.encode(
        [
            edges.tolist(),
            [0, *counts.tolist()],
            low,
            high,
            int(finite.size),
            float(finite.sum()),
            float(np.square(finite).sum()),
        ]
    )
