"""Everything a source says that is not aligned: points, events, blobs, spans, definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from time import time_ns
from typing import Any, get_args

from unilab_metrics.publish import blobs, losses, unsent
from unilab_metrics.publish.guard import guarded
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.refusals import Refusals
from unilab_metrics.publish.scalars import to_float, to_step, too_large_step
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.strict import ArgumentError
from unilab_metrics.publish.tags import NO_STRING, TagRules, clean_text, shown, usable
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import (
    BlobFrame,
    BlobKind,
    DefinitionFrame,
    EventFrame,
    Point,
    PointsFrame,
    Scalar,
    SpanFrame,
)
from unilab_schema.metrics import MetricSpec, MetricTable, OverRanks, OverTime

_MAX_TEXT = 8192


class Emitter:
    """Base of :class:`~unilab_metrics.publish.publisher.Publisher`. Any thread may call it."""

    def __init__(self, spool: Spool, *, strict: bool) -> None:
        self._spool = spool
        self._strict = strict
        self._rules = TagRules(MetricTable(), strict=strict)
        self._blob_numbers = count(1)
        self.refusals = Refusals(spool.losses, self._event)
        self._refuse = self.refusals.refuse
        self._has_emitted = False

    @property
    def losses(self) -> Losses:
        """What could not be logged."""
        return self._spool.losses

    @property
    def dropped(self) -> dict[str, int]:
        """What could not be logged since the start, by reason, and what the run has refused of
        it, as far as it has said so; empty if all is well."""
        return self.losses.all_counts

    @property
    def troubles(self) -> dict[str, int]:
        """What happened since the start and cost no frame, by name: ``key_refused``,
        ``key_unusable``, ``store_unusable``; empty if all is well."""
        return self.losses.troubles

    @property
    def errors(self) -> list[str]:
        """The newest texts of what failed inside, each once."""
        return list(self.losses.errors)

    @guarded
    def point(self, tag: str, value: Any, step: Any, unix_ns: int | None = None) -> None:
        """One value on an axis of its own, never aligned or reduced; of any tag."""
        self._points([(tag, value, step)], unix_ns)

    @guarded
    def points(self, points: Iterable[tuple[str, Any, Any]], unix_ns: int | None = None) -> None:
        """Several (tag, value, step) at once, in one record. ``unix_ns``: wall clock, now by
        default."""
        self._points(points, unix_ns)

    def _points(self, points: Iterable[tuple[str, Any, Any]], unix_ns: int | None) -> None:
        made: list[tuple[str, float, int]] = []
        if unix_ns is not None:
            unix_ns = self._nanoseconds(unix_ns, "unix_ns")
        for raw_tag, value, raw_step in points:
            tag = self._axis_tag(raw_tag)
            step = self._step(raw_step, raw_tag)
            if tag is None or step is None:
                continue
            try:
                made.append((tag, to_float(value), step))
            except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
                self._refuse(losses.BAD_VALUE, tag, str(error))
        if made:
            self._has_emitted = True
            self._spool.append(
                RecordKind.POINTS,
                lambda _mono, unix: encode_payload(
                    PointsFrame(tuple(Point(*point, unix_ns or unix) for point in made))
                ),
            )

    @guarded
    def text(self, tag: str, text: str, step: Any = 0) -> None:
        """A text for the backend's text view."""
        self._blob("text", tag, clean_text(str(text)).encode(), step)

    @guarded
    def histogram(self, tag: str, values: Any, step: Any) -> None:
        """The distribution of ``values`` (an array or tensor), bucketed here. Non-finite ones
        are left out."""
        try:
            data = blobs.histogram(values)
        except (ValueError, TypeError) as error:
            self._refuse(losses.BAD_VALUE, str(tag), str(error))
        else:
            self._blob("histogram", tag, data, step)

    @guarded
    def image(self, tag: str, png_bytes: Any, step: Any, mime: str = "image/png") -> None:
        """An encoded image, at most 32 MiB."""
        if isinstance(png_bytes, bytes):
            self._blob("image", tag, png_bytes, step, clean_text(str(mime)))
        else:
            self._refuse(losses.BAD_VALUE, str(tag), "an image is given as encoded bytes")

    def _blob(
        self, kind: BlobKind, raw_tag: str, data: bytes, raw_step: Any, mime: str = ""
    ) -> None:
        tag = self._axis_tag(raw_tag)
        step = self._step(raw_step, raw_tag)
        if tag is None or step is None:
            return
        if len(data) > blobs.MAX_BLOB_BYTES:
            self._refuse(losses.OVERSIZE, tag, f"a {kind} of {len(data)} bytes")
            return
        self._has_emitted = True
        for chunk in blobs.chunks(next(self._blob_numbers), kind, tag, step, time_ns(), data, mime):
            self._append_blob(chunk)

    def _append_blob(self, chunk: BlobFrame) -> None:
        self._spool.append(RecordKind.BLOB, lambda _mono, _unix: encode_payload(chunk))

    @guarded
    def event(self, kind: str, text: str = "", *, iteration: Any = None, **data: Any) -> None:
        """Something that happened: ``status``, ``checkpoint``, ``file``, ``config``,
        ``warning`` or a kind of one's own. ``data``: scalars; others are kept as text."""
        self._event(kind, text, None if iteration is None else to_step(iteration), data)

    def _event(self, kind: str, text: str, iteration: int | None, data: dict[str, Any]) -> None:
        kind, text = clean_text(str(kind)), clean_text(str(text))
        facts = {clean_text(name): _as_scalar(value) for name, value in data.items()}
        self._spool.append(
            RecordKind.EVENT,
            lambda mono, unix: encode_payload(EventFrame(kind, text, mono, unix, iteration, facts)),
        )

    @guarded
    def set_summary(self, **fields: Any) -> None:
        """Fields of ``run_summary.json``; later calls add and replace."""
        self._event("summary", "", None, fields)

    @guarded
    def span(
        self,
        name: str,
        category: str,
        track: str,
        start_mono_ns: int,
        duration_ns: int,
        **args: Any,
    ) -> None:
        """A stretch of ``time.monotonic_ns()`` time on one thread or stream, for traces."""
        start, duration = (self._nanoseconds(ns, "span") for ns in (start_mono_ns, duration_ns))
        if start is None or duration is None:
            return
        span = SpanFrame(
            clean_text(str(name)),
            clean_text(str(category)),
            clean_text(str(track)),
            start,
            max(duration, 0),
            {clean_text(key): _as_scalar(value) for key, value in args.items()},
        )
        self._spool.append(RecordKind.SPAN, lambda _mono, _unix: encode_payload(span))

    @guarded
    def define_metric(
        self,
        pattern: str,
        *,
        over_ranks: OverRanks = "mean",
        over_time: OverTime = "last",
        unit: str = "",
        description: str = "",
        label: str = "",
        persisted: bool = True,
    ) -> None:
        """Say what a tag, or all tags that match a pattern with one ``*``, mean.

        Raises ``ValueError`` in strict mode for what the metric schema forbids.
        """
        try:
            if over_ranks not in get_args(OverRanks) or over_time not in get_args(OverTime):
                raise ValueError(f"{over_ranks!r} over ranks, {over_time!r} over time")
            spec = MetricSpec(
                clean_text(str(pattern)),
                "user",
                unit,
                over_ranks,
                over_time,
                description,
                persisted=persisted,
                label=label,
            )
            payload = encode_payload(DefinitionFrame(spec))
            decode_payload(RecordKind.DEFINITION, payload)
            self._rules.define(spec)
        except (ValueError, TypeError) as error:
            self._refuse_call(str(pattern), str(error))
        else:
            self._spool.append(RecordKind.DEFINITION, lambda _mono, _unix: payload)

    def _axis_tag(self, tag: object) -> str | None:
        """A tag that is not reduced: any name will do."""
        if not isinstance(tag, str):
            self._refuse(losses.BAD_TAG, f"tag {shown(tag)}", NO_STRING)
            return None
        clean = clean_text(tag)
        reason = usable(clean)
        if reason:
            self._refuse(losses.BAD_TAG, shown(tag), reason)
            return None
        return clean

    def _step(self, value: Any, what: object) -> int | None:
        step = to_step(value)
        if step is None:
            text = f"{shown(value)} is {too_large_step(value) or 'no integral step'}"
            if self._strict:
                raise ArgumentError(f"{what}: {text}")
            self._refuse(losses.BAD_STEP, str(what), text)
        return step

    def _counter(self, value: Any, what: str) -> int | None:
        step = to_step(value)
        if step is None or step < 0:
            text = f"{shown(value)} is {too_large_step(value) or 'no number of steps'}"
            if self._strict:
                raise ArgumentError(f"{what}: {text}")
            self._refuse(losses.BAD_STEP, what, text)
            return None
        return step

    def _nanoseconds(self, value: Any, what: str) -> int | None:
        with suppress(Exception):  # a value's own code may raise anything
            number = int(value)
            if -(2**63) <= number < 2**63:
                return number
        self._refuse_call(what, f"{shown(value)} is no number of nanoseconds")
        return None

    def _say_refused(self, *, is_exiting: bool) -> None:
        if not self._has_emitted:
            unsent.say(self.refusals.all_text(), is_exiting=is_exiting)

    def _failed(self, error: Exception, values: object) -> None:
        """Something of a call with ``values`` raised."""
        if self._is_mapping(values):
            self.refusals.failed(error)

    def _is_mapping(self, values: object) -> bool:
        if isinstance(values, Mapping) or hasattr(values, "items"):
            return True
        self._refuse_call("values", f"a {type(values).__name__} is no mapping of names to numbers")
        return False

    def _refuse_call(self, what: str, text: object) -> None:
        """A mistake in a call's arguments. Raises :class:`ArgumentError` in strict mode."""
        if self._strict:
            raise ArgumentError(f"{what}: {text}")
        self._refuse(losses.BAD_CALL, what, str(text))


def _as_scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else to_float(value)
    if isinstance(value, float):
        return float(value)
    try:
        item = value.item()
    except Exception:  # noqa: BLE001 - what is no number is kept as text
        item = str(value)
    if isinstance(item, bool | int | float):
        return _as_scalar(item)
    return clean_text(str(item))[:_MAX_TEXT]
