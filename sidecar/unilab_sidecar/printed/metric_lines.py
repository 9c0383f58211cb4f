r"""A run as lines ``name value age``, one per metric: for screen readers, braille and pipes. Pure.

The lines are sorted by name, and so are those that are appended later: only of what has changed.
Beside the tags, which are the run's own, these names stand for the run itself: ``alert``,
``bottleneck``, ``dropped``, ``elapsed_s``, ``env_steps``, ``eta_s``, ``iteration``,
``max_iterations``, ``ranks_expected``, ``ranks_reported``, ``state``. Name and age have no blanks
(in a name they are ``\x20``), so that a value, which may have some, is what stands between them. A
metric's is its number and, where the unit is known and worth saying, a blank and that:
``Perf/learning_time 0.036 s 0.2s``. The number is the second word, the age the last one.
"""

from __future__ import annotations

import math
from functools import lru_cache

from unilab_schema.known_names import NAMES
from unilab_schema.metrics import MetricTable
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.groups.grouping import unit_by_name
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.standing import is_training, words

UNKNOWN = "-"


class MetricTeller:
    """Remembers what it has said. One owner, no locks."""

    def __init__(self, interval_s: float, wanted: str = "") -> None:
        """``wanted``: a filter for the names."""
        self._interval_s = interval_s
        self._filter = parse_filter(wanted)
        self._said: frozenset[tuple[str, str]] = frozenset()
        self._said_s = -math.inf
        self._has_found = True

    @property
    def has_found(self) -> bool:
        """Whether what was said last had a metric that passes the filter."""
        return self._has_found

    def once(self, picture: Picture) -> list[str]:
        """A line per metric, sorted."""
        return [f"{key} {value} {age}" for key, value, age in self._rows(picture)]

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """The lines of what has changed since they were last said."""
        if not is_over and now_s - self._said_s < self._interval_s:
            return []
        self._said_s = now_s
        rows = self._rows(picture)
        lines = [f"{k} {v} {age}" for k, v, age in rows if (k, v) not in self._said]
        self._said = frozenset((key, value) for key, value, _age in rows)
        return lines

    def _rows(self, picture: Picture) -> list[tuple[str, str, str]]:
        rows = _of_run(picture)
        taken = {key for key, _value, _age in rows}
        now = UNKNOWN if picture.age_s is None else _age(picture.age_s)
        for tag, reading in picture.readings.items():
            age = now if reading.stale_s is None else _age(reading.stale_s)
            value = number(reading.value) + unit(tag)
            # The run's own names stand for the run itself.
            rows.append((f"tag/{tag}" if tag in taken else name(tag), value, age))
        found = sorted(row for row in rows if self._filter.passes(row[0]))
        self._has_found = bool(found)
        return found


def name(tag: str) -> str:
    """The tag without anything that a terminal acts on, and without blanks."""
    return clean(tag).replace(" ", "\\x20") or "\\x00"


_OF_THE_UPDATE = frozenset(
    {"bottleneck", "elapsed_s", "env_steps", "eta_s"}
    | {"iteration", "ranks_expected", "ranks_reported"}
)
"""As old as the newest update that was read; the others are as of the last announcement."""


_UNITS = {one: one for one in ("ms", "s", "us", "%", "bytes", "W", "°C", "rows/s")} | {
    "env steps/s": "steps/s"
}
"""Of the metric table. What is counted says its name; what is none of these has no short one."""
_TABLE = MetricTable()


@lru_cache(maxsize=1 << 15)
def unit(tag: str) -> str:
    """Of a tag's numbers, with a blank before it; empty if it is not known."""
    spec = _TABLE.spec(tag)
    if spec is None and tag in NAMES["steps_per_s"]:
        return " steps/s"
    known = _UNITS.get(spec.unit, "") if spec is not None else unit_by_name(tag)
    return f" {known}" if known else ""


def number(value: float) -> str:
    """Six digits; NaN and infinities as words."""
    return f"{value:.6g}" if math.isfinite(value) else formatting.value(value)


def _age(seconds: float) -> str:
    return f"{max(seconds, 0.0):.1f}s" if math.isfinite(seconds) else UNKNOWN


def _of_run(picture: Picture) -> list[tuple[str, str, str]]:
    found = [alert.text for alert in alerts(picture)]
    values: dict[str, object] = {
        "alert": "; ".join(found) or "none",
        "bottleneck": clean(picture.bottleneck.text) if picture.bottleneck else "none",
        "dropped": picture.dropped,
        "elapsed_s": _seconds(picture.elapsed_s),
        "env_steps": picture.env_steps,
        "eta_s": _seconds(picture.eta_s) if is_training(picture) else None,
        "iteration": picture.iteration,
        "max_iterations": picture.run.max_iterations,
        "ranks_expected": picture.ranks_expected if picture.iteration is not None else None,
        "ranks_reported": picture.ranks_reported if picture.iteration is not None else None,
        "state": words(picture),
    }
    of_update = UNKNOWN if picture.age_s is None else _age(picture.age_s)
    age = UNKNOWN if picture.ended is not None else _age(picture.silent_s)
    return [
        (key, str(value), of_update if key in _OF_THE_UPDATE else age)
        for key, value in values.items()
        if value is not None
    ]


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None or not math.isfinite(seconds) else f"{seconds:.0f}"
