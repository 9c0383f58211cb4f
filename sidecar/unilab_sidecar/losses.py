"""What an ended run's summary says about missing values and frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

SUMMARY_FILE = "run_summary.json"
_MAX_BYTES = 4 * 1024 * 1024


def dropped_of_summary(run_dir: Path, attempt: int) -> int | None:
    """Dropped calls and lost frames of ``attempt``, or ``None`` if the file does not say."""
    try:
        with (run_dir / SUMMARY_FILE).open("rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:
        return None
    return dropped_in(data, attempt)


def dropped_in(data: bytes, attempt: int) -> int | None:
    """The same of a summary's text. Anything unexpected in it is no number. Pure."""
    try:
        summary: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    bus = _object(_object(summary).get("bus"))
    if bus.get("attempt") != attempt:
        return None
    numbers = [bus.get("lost_frames"), *_object(bus.get("dropped_calls")).values()]
    counts = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool)]
    return sum(counts) if len(counts) == len(numbers) else None


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
