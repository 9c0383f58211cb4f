"""The values of a call as frames in the spool: the hot path.

A key set that was seen before costs one dictionary look-up; its values are packed at once,
without an object per key.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from unilab_metrics.publish import losses
from unilab_metrics.publish.layouts import KeySets, Part
from unilab_metrics.publish.packing import pack_iteration
from unilab_metrics.publish.scalars import FAST_TYPES, convert, to_float
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.strict import TagError
from unilab_metrics.publish.tags import TagRules
from unilab_schema.codec import KIND_OF, RecordKind, encode_payload
from unilab_schema.frames import IterationFrame, ReportFrame, SparseFrame

_REMEMBERED = 1024


class Refuse(Protocol):
    """Counts what is refused under ``reason`` (if any) and names it once in an event."""

    def __call__(self, reason: str, what: str, text: str) -> None:
        """Must not raise."""
        ...


Admitted: TypeAlias = tuple[Mapping[str, Any], tuple[str, ...], tuple[Part, ...] | None]
"""The values of a call whose tags may be logged, the tags, and their parts if known."""


class FrameWriter:
    """Writes iterations and reports of one source. Any thread may call it."""

    def __init__(self, spool: Spool, rules: TagRules, refuse: Refuse, *, strict: bool) -> None:
        self._spool = spool
        self._rules = rules
        self._refuse = refuse
        self._strict = strict
        self._key_sets = KeySets(self._announce)
        self.seen: dict[tuple[str, ...], tuple[Part, ...]] = {}
        """Key sets of callers that need no :meth:`admit`, with their frames."""
        self.refused_calls = 0
        """Calls of which nothing that was given is in a frame."""

    def admit(self, values: Mapping[str, Any]) -> Admitted:
        """What of a caller's values may be logged; the rest is refused by tag.

        Raises :class:`TagError` in strict mode.
        """
        tags = tuple(values)
        admitted: dict[str, Any] = {}
        for raw, value in values.items():
            verdict = self._rules.judge(raw)
            if verdict.reason:
                if self._strict:
                    raise TagError(verdict.text)
                self._refuse(losses.BAD_TAG, verdict.tag, verdict.reason)
                continue
            if verdict.changed:
                self._refuse("", verdict.tag, "the tag held halves of characters")
            admitted[verdict.tag] = value
        if values and not admitted:
            self.refused_calls += 1
        for tag in self._key_sets.nameless(tuple(admitted)):
            self._refuse(losses.TOO_MANY_TAGS, tag, "this source has announced too many tags")
            del admitted[tag]
        if tuple(admitted) != tags:
            return admitted, tuple(admitted), None
        parts = self._key_sets.parts(tags)
        if parts is not None:
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            self.seen[tags] = parts
        return values, tags, parts

    def write(
        self,
        values: Mapping[str, Any],
        tags: tuple[str, ...],
        parts: tuple[Part, ...] | None,
        iteration: int | None,
        env_steps: int | None,
        more: bool = False,
        already_reduced: bool = False,
    ) -> bool:
        """Append the frames; true if all are in the spool. Values that are no numbers are
        refused by tag. ``tags`` are those of ``values``, ``parts`` theirs, if known.
        ``iteration``: ``None`` for a report."""
        weights = None
        if FAST_TYPES.issuperset(map(type, values.values())):
            if parts is None:
                parts = self._parts(tags)
                if parts is None:
                    return False
            part = parts[0]
            if iteration is not None and len(parts) == 1 and part.layout >= 0:
                try:
                    packed = part.pack(*values.values())
                except struct.error:  # an integer beyond the range of float64
                    packed = part.pack(*map(to_float, values.values()))
                frame = (part.layout, iteration, env_steps, packed, more, already_reduced)
                return self._spool.append(RecordKind.ITERATION, pack_iteration, frame)
            numbers = list(values.values())
        else:
            scalars = convert(values)
            for refusal in scalars.refused:
                self._refuse(losses.BAD_VALUE, refusal.tag, refusal.reason)
            if scalars.refused and not scalars.values:
                self.refused_calls += 1
            if len(scalars.values) != len(tags):
                tags, parts = tuple(scalars.values), None
            numbers = list(scalars.values.values())
            weights = None if scalars.weights is None else list(scalars.weights.values())
        if parts is None:
            parts = self._parts(tags)
            if parts is None:
                return False
        accepted = True
        for part in parts:
            piece = numbers[part.start : part.stop]
            try:
                packed = part.pack(*piece)
            except struct.error:
                packed = part.pack(*map(to_float, piece))
            packed_weights = b"" if weights is None else part.pack(*weights[part.start : part.stop])
            unfinished = more or part is not parts[-1]
            head = (iteration, env_steps, unfinished, already_reduced)
            accepted &= self._append(part, packed, packed_weights, head)
        return accepted

    def _parts(self, tags: tuple[str, ...]) -> tuple[Part, ...] | None:
        """What is not announced is counted: by the spool, unless this call interrupts one."""
        parts = self._key_sets.parts(tags)
        if parts is None and self._key_sets.is_announcing:
            self._spool.losses.count(losses.INTERRUPTED)
        return parts

    def _append(
        self,
        part: Part,
        values: bytes,
        weights: bytes,
        head: tuple[int | None, int | None, bool, bool],
    ) -> bool:
        iteration, steps, more, reduced = head
        layout = part.layout
        if layout < 0:
            numbers = part.numbers
            return self._spool.append(
                RecordKind.SPARSE,
                lambda mono, unix: encode_payload(
                    SparseFrame(
                        numbers, iteration, steps, mono, unix, values, weights, more, reduced
                    )
                ),
            )
        if iteration is None:
            return self._spool.append(
                RecordKind.REPORT,
                lambda mono, unix: encode_payload(
                    ReportFrame(layout, steps, mono, unix, values, weights)
                ),
            )
        return self._spool.append(
            RecordKind.ITERATION,
            lambda mono, unix: encode_payload(
                IterationFrame(layout, iteration, steps, mono, unix, values, weights, more, reduced)
            ),
        )

    def _announce(self, payload: msgspec.Struct) -> bool:
        encoded = encode_payload(payload)
        kind = KIND_OF[type(payload)]
        return self._spool.append(kind, lambda _mono, _unix: encoded, announcement=True)
