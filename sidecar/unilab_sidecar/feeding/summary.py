"""What an ended run's summary says, where no aggregator can: losses, sources, backends, alerts. Pure."""

from __future__ import annotations

import json
import math
from typing import NamedTuple, TypeGuard, cast

from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import SourceKey
from unilab_sidecar.progress.source_states import shown_state

_MOST_S = 1e12


class Summary(NamedTuple):
    """``status``: how the attempt ended. ``dropped``: calls and frames that are missing, ``None`` if
    it does not say. ``updates``: the last update sequence of the history. Ages of ``sources`` are
    unknown (``inf``). ``training_s``: seconds since warm-up, earlier attempts included. ``alerts``:
    texts of the newest of ``alerts_open`` alerts that had not ended, oldest first."""

    dropped: int | None = None
    updates: int = 0
    late_values: int = 0
    quarantined: int = 0
    sources: tuple[SourceStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()
    status: str = ""
    training_s: float | None = None
    alerts: tuple[str, ...] = ()
    alerts_open: int = 0


def summary_in(data: bytes, attempt: int) -> Summary | None:
    """What its text says of ``attempt``, ``None`` if nothing. The unexpected is passed over."""
    try:
        summary: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    bus = _object(_object(summary).get("bus"))
    status = bus.get("ended") or _object(summary).get("status")
    if bus.get("attempt") != attempt:
        return None
    sources = bus.get("sources")
    listed = cast("list[object]", sources) if isinstance(sources, list) else []
    backends = _object(bus.get("backends")).items()
    warnings = _object(bus.get("warnings"))
    alerts = _object(bus.get("alerts"))
    texts = alerts.get("open_texts")
    texts = cast("list[object]", texts) if isinstance(texts, list) else []
    return Summary(
        _total([bus.get("lost_frames"), *_object(bus.get("dropped_calls")).values()]),
        _count(bus, "updates"),
        _count(bus, "late_values"),
        _count(bus, "quarantined_frames"),
        tuple(made for one in listed if (made := _source(_object(one))) is not None),
        tuple(BackendStatus(name, "finished", update, text=_trouble(name, warnings))
              for name, update in backends if _is_int(update)),
        status if isinstance(status, str) else "",
        _seconds(_object(summary).get("training_wall_time_sec")),
        tuple(text for text in texts if isinstance(text, str)),
        _count(alerts, "open"),
    )  # fmt: skip


def _trouble(backend: str, warnings: dict[str, object]) -> str:
    """What was wrong with its writer at the end."""
    start = f"the writer of {backend} "
    return next((text.removeprefix(start) for text in warnings if text.startswith(start)), "")


def _source(fields: dict[str, object]) -> SourceStatus | None:
    role, state, host = fields.get("role"), fields.get("state"), fields.get("host")
    if not (isinstance(role, str) and isinstance(state, str) and isinstance(host, str)):
        return None
    if isinstance(ended := fields.get("ended"), str):
        state = shown_state(state, ended)
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


def _seconds(number: object) -> float | None:
    if isinstance(number, float) or _is_int(number):
        return float(number) if 0 <= number < _MOST_S else None
    return None


def _count(fields: dict[str, object], name: str) -> int:
    number = fields.get(name)
    return number if _is_int(number) else 0


def _is_int(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
