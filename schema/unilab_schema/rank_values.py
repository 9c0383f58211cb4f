"""Each source's values, and each tag over all of them: parts of ``requests.RankValues``."""

from __future__ import annotations

import msgspec

from unilab_schema.identity import SourceKey


class RankRow(msgspec.Struct, frozen=True, array_like=True):
    """A source of this attempt and its values: means over the last two seconds of its frames, the
    newest one always among them. A value that none of these has is its newest one.

    ``state``, ``age_s``, ``frame_age_s`` and ``ended``: as in ``control.SourceStatus``.
    ``iteration``: a learner's newest. ``cursor``: sequence of its newest record. ``values`` and
    ``ages_s``: packed ``<d`` in the order of the tags; the age is since the value was logged, and
    NaN where the source has none of the tag. A value that is NaN has an age. The age is of the newest
    value of a mean. ``samples``: the most frames that a mean is over; 0: none is told, and all are
    newest values.
    """

    key: SourceKey
    state: str
    age_s: float
    frame_age_s: float | None
    iteration: int | None
    env_steps: int | None
    cursor: int
    values: bytes
    ages_s: bytes
    ended: str = ""
    samples: int = 0


class RankSpread(msgspec.Struct, frozen=True, array_like=True):
    """A tag over the sources that have it. Of each role those count that are neither lost nor
    finished; once there are none, those that are not lost.

    ``minimum``, ``mean`` and ``maximum``: over its finite values, ``None`` without any; every
    source counts once. ``lowest`` and ``highest``: who holds them, of equals the first.
    ``count``: finite values; ``nonfinite``: the others.
    """

    count: int
    nonfinite: int
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    lowest: SourceKey | None = None
    highest: SourceKey | None = None
