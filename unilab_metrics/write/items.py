"""What a backend is asked to write: the history, with steps and without what stays out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Scalars(NamedTuple):
    """Values of one step, in the order of ``tags``; float64, NaN and infinities included."""

    step: int
    unix_ns: int
    tags: tuple[str, ...]
    values: NDArray[np.float64]


class Scalar(NamedTuple):
    """One value on an axis of its own."""

    step: int
    unix_ns: int
    tag: str
    value: float


class Text(NamedTuple):
    """Markdown."""

    step: int
    unix_ns: int
    tag: str
    text: str


class Histogram(NamedTuple):
    """``data``: as in ``BlobFrame``, msgpack of limits, counts, min, max, total, sum and
    sum of squares."""

    step: int
    unix_ns: int
    tag: str
    data: bytes


class Image(NamedTuple):
    """``data``: an encoded PNG or JPEG."""

    step: int
    unix_ns: int
    tag: str
    data: bytes
    mime: str


class Restart(NamedTuple):
    """A later attempt goes on from ``step``: readers forget what earlier ones wrote from
    there on."""

    step: int
    unix_ns: int


Item = Scalars | Scalar | Text | Histogram | Image | Restart
