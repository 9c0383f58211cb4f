"""What the aggregator knows of each source, and how its records change that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from unilab_metrics.aggregate.folding.reports import Reports
from unilab_schema.codec import MAX_FRAME_TAGS, MAX_LAYOUTS, FrameDecodeError
from unilab_schema.control import SourceFigures
from unilab_schema.frames import Layout, TagNames
from unilab_schema.identity import LEARNER, Identity

SourceStatus = Literal["live", "finished", "lost"]

NameTags = Callable[[tuple[str, ...]], tuple[str, ...]]
"""A run's tags by their names; empty names in the place of those that it has no room for."""

MAX_TAGS = 200_000
"""Names that one source may announce in sparse form."""


class SourceState(msgspec.Struct, array_like=True):
    """One incarnation. ``cursor``: the last sequence that is in the wal.

    ``layouts`` maps the source's layout numbers to interned key sets. ``ended``: the status
    of its End record, once that is in the wal, and ``ended_mono_ns`` that record's stamp.
    ``attempt``: the newest one it takes part in; ``joined``: the one in which it was admitted.
    ``ending``: how the process of a lost one ended, as far as anybody knows.
    ``env_steps``: a learner's counter as of its last sealed iteration.
    ``training_mono_ns``: end of its warm-up, on its own clock. ``log_cost``: calls of its
    ``log()`` and nanoseconds inside them, between the last two ``figures``.
    ``newest_stamp``: monotonic and wall time of a learner's newest iteration.
    ``told_through``: the last sequence that was in a wal that is lost or damaged.
    ``beyond``: records that lie in a damaged wal, up to ``beyond_last``, behind a hole after the
    cursor. ``unsure``: frames of gaps; whether the history has what they said is not known yet.
    ``perhaps_lost``: of the lost ones those of which the history may have some after all.
    ``refused``: what the run did not take of what the source has sent, by reason.
    ``troubles``: what the source has met and lost nothing by, as it told last.
    ``failure``: what it has said of why it failed.
    ``is_double``: it began while another process was at work in its place, and is of no attempt.
    """

    index: int
    identity: Identity
    status: SourceStatus = "live"
    cursor: int = 0
    frames: int = 0
    lost_frames: int = 0
    quarantined: int = 0
    late_values: int = 0
    drops: dict[str, int] = {}
    ended: str | None = None
    attempt: int = 1
    env_steps: int | None = None
    training_mono_ns: int | None = None
    watermark_mono_ns: int = 0
    last_iteration: int | None = None
    layouts: dict[int, int] = {}
    layout_parts: dict[int, list[tuple[str, ...]]] = {}
    tag_names: list[str] = []
    reports: Reports = msgspec.field(default_factory=Reports)
    ended_mono_ns: int | None = None
    joined: int = 1
    ending: str = ""
    duplicates: int = 0
    bad_messages: int = 0
    figures: SourceFigures | None = None
    log_cost: tuple[int, int] = (0, 0)
    newest_stamp: tuple[int, int] = (0, 0)
    refused: dict[str, int] = {}
    told_through: int = 0
    troubles: dict[str, int] = {}
    is_double: bool = False
    beyond: bytes = b""
    beyond_last: int = 0
    unsure: int = 0
    perhaps_lost: int = 0
    failure: str = ""

    def refuse(self, reason: str, times: int) -> None:
        """The run has no room for some of what the source has sent."""
        self.refused[reason] = self.refused.get(reason, 0) + times

    def dropped(self, told: Mapping[str, int] | None = None) -> dict[str, int]:
        """All that is missing of what its training logged, by reason: ``told`` by the source
        (its newest drops by default), and refused here."""
        drops = dict(told or self.drops)
        for reason, times in self.refused.items():
            drops[reason] = drops.get(reason, 0) + times
        return drops

    @property
    def rank(self) -> int:
        """The global rank."""
        return self.identity.key.rank

    @property
    def name(self) -> str:
        """For messages: which process of the training it is."""
        identity = self.identity
        return f"{identity.key.place} (pid {identity.pid} on {identity.host})"

    @property
    def is_learner(self) -> bool:
        """Whether its frames are iterations."""
        return self.identity.key.role == LEARNER

    def forget_names(self) -> None:
        """It has said its last word; only reports that wait refer to a key set."""
        self.layouts.clear()
        self.layout_parts.clear()
        self.tag_names.clear()

    def pass_gap(self, first: int, last: int) -> None:
        """Its records ``first`` to ``last`` are lost, as far as the history does not have what
        they said: of those that had been in the wal, the next frame shows that."""
        self.cursor = max(self.cursor, last)
        frames = max(last - first + 1, 0)
        told = min(max(self.told_through - first + 1, 0), frames)
        self.unsure += told
        self.lost_frames += frames - told

    def settle_gaps(self, *, is_told: bool) -> None:
        """Whether the history has what followed the gaps, and so what was in them."""
        if not is_told:
            self.lost_frames += self.unsure
            self.perhaps_lost += self.unsure
        self.unsure = 0

    def settle_last_gap(self, last_sealed: int | None) -> None:
        """Nothing follows it any more. Each frame may have been of one iteration more."""
        if self.unsure and (self.frames or self.is_learner):
            through = None if self.last_iteration is None else self.last_iteration + self.unsure
            is_sealed = through is not None and last_sealed is not None and through <= last_sealed
            self.settle_gaps(is_told=self.is_learner and is_sealed)
        self.unsure = 0

    def forget_beyond(self) -> None:
        """The cursor has passed what lay behind the hole."""
        if self.beyond and self.cursor >= self.beyond_last:
            self.beyond, self.beyond_last = b"", 0

    def raise_watermark(self, mono_ns: int) -> None:
        """Everything stamped before ``mono_ns`` has arrived."""
        self.watermark_mono_ns = max(self.watermark_mono_ns, mono_ns)


MAX_KEY_SETS = 4096
MAX_KEY_SET_TAGS = 250_000
"""Of all key sets together, before the unused ones are forgotten."""


class KeySets:
    """Interned tag tuples: numbers that snapshots and windows use instead of names. A number
    is good for as long as something in the state refers to it."""

    def __init__(self, tags: dict[int, tuple[str, ...]]) -> None:
        """``tags``: key sets by number, changed in place."""
        self._tags = tags
        self._numbers = {names: number for number, names in tags.items()}
        self._next = max(tags, default=-1) + 1
        self._tag_count = sum(map(len, self._numbers))
        self._limits = (MAX_KEY_SETS, MAX_KEY_SET_TAGS)
        self.is_full = False
        """Whether those that nothing refers to should be forgotten."""

    def number(self, tags: tuple[str, ...]) -> int:
        """The number of a key set, a new one if it was not seen before."""
        known = self._numbers.get(tags)
        if known is None:
            known = self._numbers[tags] = self._next
            self._next += 1
            self._tags[known] = tags
            self._tag_count += len(tags)
            most, most_tags = self._limits
            self.is_full = len(self._tags) > most or self._tag_count > most_tags
        return known

    def keep(self, used: set[int]) -> None:
        """Forget all others."""
        for number in [n for n in self._tags if n not in used]:
            tags = self._tags.pop(number)
            del self._numbers[tags]
            self._tag_count -= len(tags)
        self._limits = (
            max(MAX_KEY_SETS, 2 * len(self._tags)),
            max(MAX_KEY_SET_TAGS, 2 * self._tag_count),
        )
        self.is_full = False

    def tags(self, number: int) -> tuple[str, ...]:
        """The tags of a key set."""
        return self._tags[number]


def take_layout(source: SourceState, layout: Layout, key_sets: KeySets, named: NameTags) -> None:
    """Learn a layout, or a part of one. Raises ``FrameDecodeError`` beyond the limits."""
    if not 0 <= layout.layout < MAX_LAYOUTS:
        raise FrameDecodeError("layout", f"number {layout.layout} is not below {MAX_LAYOUTS}")
    if layout.parts == 1:
        tags = layout.tags
    else:
        parts = source.layout_parts.setdefault(layout.layout, [])
        if layout.part == 0:
            parts.clear()
        if layout.part != len(parts):
            if layout.layout in source.layouts:
                return
            raise FrameDecodeError("layout", f"part {layout.part} after {len(parts)} parts")
        parts.append(layout.tags)
        if sum(map(len, parts)) > MAX_FRAME_TAGS or len(parts) > MAX_FRAME_TAGS:
            del source.layout_parts[layout.layout]
            raise FrameDecodeError("layout", f"the limit is {MAX_FRAME_TAGS} tags")
        if len(parts) < layout.parts:
            return
        tags = tuple(tag for part in parts for tag in part)
        del source.layout_parts[layout.layout]
    if len(tags) > MAX_FRAME_TAGS:
        raise FrameDecodeError("layout", f"{len(tags)} tags, the limit is {MAX_FRAME_TAGS}")
    if len(set(tags)) != len(tags):
        raise FrameDecodeError("layout", "a tag is named twice")
    source.layouts[layout.layout] = key_sets.number(named(tags))


def take_tag_names(source: SourceState, names: TagNames, named: NameTags) -> None:
    """Learn numbers of tags. Raises ``FrameDecodeError`` on a hole or beyond the limit."""
    known = len(source.tag_names)
    if not 0 <= names.first <= known or names.first + len(names.tags) > MAX_TAGS:
        raise FrameDecodeError("tag names", f"first {names.first} after {known} names")
    source.tag_names[names.first : names.first + len(names.tags)] = named(names.tags)


def dense_key_set(source: SourceState, layout: int, values_bytes: int, key_sets: KeySets) -> int:
    """The key set of a frame in a layout. Raises ``FrameDecodeError`` if it does not fit."""
    key_set = source.layouts.get(layout)
    if key_set is None:
        raise FrameDecodeError("frame", f"layout {layout} was never announced")
    expected = 8 * len(key_sets.tags(key_set))
    if values_bytes != expected:
        raise FrameDecodeError("frame", f"{values_bytes} bytes of values, layout has {expected}")
    return key_set


def sparse_key_set(
    source: SourceState, numbers: bytes, values_bytes: int, key_sets: KeySets
) -> int:
    """The key set of a sparse frame. Raises ``FrameDecodeError`` on an unknown number."""
    if len(numbers) % 4 or values_bytes != len(numbers) * 2:
        raise FrameDecodeError("sparse frame", f"{len(numbers)} bytes of tags, {values_bytes}")
    names = source.tag_names
    tags: list[str] = []
    for at in range(0, len(numbers), 4):
        number = int.from_bytes(numbers[at : at + 4], "little")
        if number >= len(names):
            raise FrameDecodeError("sparse frame", f"tag number {number} was never announced")
        tags.append(names[number])
    distinct = set(tags)
    if len(distinct) != len(tags) and len(distinct) + tags.count("") - 1 != len(tags):
        raise FrameDecodeError("sparse frame", "a tag is named twice")
    return key_sets.number(tuple(tags))
