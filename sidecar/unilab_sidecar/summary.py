"""What an ended run's summary says, where no aggregator can: losses, sources, backends. Pure."""

from __future__ import annotations

import json
import math
from typing import NamedTuple, TypeGuard, cast

from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import SourceKey


class Summary(NamedTuple):
    """``dropped``: calls and frames that are missing, ``None`` if it does not say. ``updates``:
    the last update sequence of the history. Ages of ``sources`` are unknown (``inf``)."""

    dropped: int | None = None
    updates: int = 0
    late_values: int = 0
    quarantined: int = 0
    sources: tuple[SourceStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()


def summary_in(data: bytes, attempt: int) -> Summary | None:
    """What its text says of ``attempt``, ``None`` if nothing. The unexpected is passed over."""
    try:
        summary: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    bus = _object(_object(summary).get("bus"))
    if bus.get("attempt") != attempt:
        return None
    sources = bus.get("sources")
    listed = cast("list[object]", sources) if isinstance(sources, list) else []
    backends = _object(bus.get("backends")).items()
    warnings = _object(bus.get("warnings"))
    return Summary(
        _total([bus.get("lost_frames"), *_object(bus.get("dropped_calls")).values()]),
        _count(bus, "updates"),
        _count(bus, "late_values"),
        _count(bus, "quarantined_frames"),
        tuple(made for one in listed if (made := _source(_object(one))) is not None),
        tuple(BackendStatus(name, "finished", update, text=_trouble(name, warnings))
              for name, update in backends if _is_int(update)),
    )  # fmt: skip


def _trouble(backend: str, warnings: dict[str, object]) -> str:
    """What was wrong with its writer at the end."""
    start = f"the writer of {backend} "
    return next((text.removeprefix(start) for text in warnings if text.startswith(start)), "")


def _source(fields: dict[str, object]) -> SourceStatus | None:
    role, state, host = fields.get("role"), fields.get("state"), fields.get("host")
    if not (isinstance(role, str) and isinstance(state, str) and isinstance(host, str)):
        return None
    key = SourceKey(_count(fields, "rank"), role, _count(fields, "instance"))
    lost = _count(fields, "lost_frames")
    dropped = _object(fields.get("dropped_calls")).items()
    drops = {reason: count for reason, count in dropped if _is_int(count)}
    met = _object(fields.get("troubles")).items()
    return SourceStatus(
        key,
        _count(fields, "pid"),
        host,
        state,
        math.inf,
        None,
        _count(fields, "journaled_frames") + lost,
        lost,
        drops,
        troubles={name: count for name, count in met if _is_int(count)},
    )


def _total(numbers: list[object]) -> int | None:
    counts = [number for number in numbers if _is_int(number)]
    return sum(counts) if len(counts) == len(numbers) else None


def _count(fields: dict[str, object], name: str) -> int:
    number = fields.get(name)
    return number if _is_int(number) else 0


def _is_int(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
