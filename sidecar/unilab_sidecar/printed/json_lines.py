"""A run as one JSON object per line, for programs. Pure.

Every object is whole in itself. Numbers that JSON has no word for are the strings ``"NaN"``,
``"Infinity"`` and ``"-Infinity"``; what is not known is ``null``. Ages are seconds. Fields are
only added.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.progress.standing import is_training, words

FORMAT = 1


class JsonTeller:
    """Remembers when it spoke last. One owner, no locks."""

    def __init__(self, interval_s: float, wanted: str = "") -> None:
        """``wanted``: a filter for the metrics' tags."""
        self._interval_s = interval_s
        self._wanted = wanted
        self._said_s = -math.inf
        self._has_found = True

    @property
    def has_found(self) -> bool:
        """Whether what was said last had a metric that passes the filter."""
        return self._has_found

    def once(self, picture: Picture) -> list[str]:
        """The object of this moment."""
        passes = parse_filter(self._wanted).passes
        self._has_found = not self._wanted or any(map(passes, picture.readings))
        return [json_line(picture, self._wanted)]

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """The next object if it is time for one, and the last one at the end."""
        if not is_over and now_s - self._said_s < self._interval_s:
            return []
        self._said_s = now_s
        return self.once(picture)


def json_line(picture: Picture, wanted: str = "") -> str:
    """The picture as one line of JSON."""
    run, journal, bus = picture.run, picture.journal, picture.bus
    passes = parse_filter(wanted).passes
    found = picture.bottleneck
    content: dict[str, Any] = {
        "format": FORMAT,
        "state": words(picture),
        "stage": picture.stage,
        "ended": picture.ended,
        "ended_text": picture.ended_text,
        "run": {
            "directory": picture.run_dir,
            "algorithm": run.algorithm,
            "task": run.task,
            "sim_backend": run.sim_backend,
            "world_size": run.world_size,
            "max_iterations": run.max_iterations,
            "attempt": picture.attempt,
        },
        "iteration": picture.iteration,
        "env_steps": picture.env_steps,
        "elapsed_s": _number(picture.elapsed_s),
        "eta_s": _number(picture.eta_s) if is_training(picture) else None,
        "window": {"updates": picture.samples, "age_s": _number(picture.age_s)},
        "ranks": {
            "reported": picture.ranks_reported,
            "expected": picture.ranks_expected,
            "missing": picture.missing_ranks,
        },
        "unread": picture.unread,
        "silent_s": _known(picture.silent_s),
        "alerts": [{"text": alert.text, "level": alert.style} for alert in alerts(picture)],
        "alerts_open": picture.own_alerts[1],
        "open_alerts": [
            {
                "id": one.alert or None,
                "rule": one.rule,
                "subject": one.subject,
                "severity": one.severity,
                "text": one.text,
                "iteration": one.iteration,
                "since_unix_s": one.unix_ns / 1e9 if one.unix_ns else None,
            }
            for one in picture.own_alerts[0]
        ],
        "bottleneck": None if found is None else found.text,
        "metrics": {
            tag: {"value": _number(reading.value), "age_s": _age(reading.stale_s, picture)}
            for tag, reading in sorted(picture.readings.items())
            if passes(tag)
        },
        "reward_peak": _number(picture.rewards.peak),
        "reward_trend": picture.rewards.trend,
        "dropped": picture.dropped,
        "refused": picture.refused,
        "sources": [
            {
                "role": source.key.role,
                "rank": source.key.rank,
                "instance": source.key.instance,
                "pid": source.pid,
                "host": source.host,
                "state": source.state,
                "age_s": _known(source.age_s),
                "drops": source.drops,
                "lost_frames": source.lost_frames,
                "troubles": source.troubles,
            }
            for source in picture.sources
        ],
        "backends": [
            {"name": one.name, "state": one.state, "update": one.update, "text": one.text}
            for one in picture.backends
        ],
        "journal": {
            "update": journal.update,
            "durable": journal.durable,
            "late_values": journal.late_values,
            "quarantined": journal.quarantined,
            "problem": journal.problem,
        },
        "bad_messages": bus.bad_messages,
        "events": [_event(note) for note in picture.notes],
    }
    return msgspec.json.encode(_fit(content)).decode()


def _event(note: Note) -> dict[str, Any]:
    return {
        "kind": note.kind,
        "text": note.text,
        "age_s": _number(note.age_s),
        "iteration": note.iteration,
        "ranks": note.ranks,
        "attempt": note.attempt,
    }


def _age(stale_s: float | None, picture: Picture) -> float | str | None:
    return _number(picture.age_s if stale_s is None else stale_s)


def _known(seconds: float | None) -> float | None:
    """A time since something that nobody may have heard of."""
    return None if seconds is None or not math.isfinite(seconds) else seconds


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _fit(content: Any) -> Any:
    """Texts without lone surrogates, which UTF-8 has no bytes for."""
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode("utf-8")
    if isinstance(content, dict):
        return {_fit(key): _fit(value) for key, value in content.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(content, list | tuple):
        return [_fit(one) for one in content]  # pyright: ignore[reportUnknownVariableType]
    return content
