"""``run_summary.json``: how the run ended, for the readers that know it by its frozen names.

The producer's own fields come first, then what the bus knows, which wins. Written as a whole
or not at all; readable by whoever the umask lets in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import msgspec

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import StorageError
from unilab_metrics.outcome import COMPLETED, FAILED, STOPPED, RunOutcome, SourceOutcome
from unilab_metrics.run.directory import file_mode
from unilab_metrics.storage.bounded_reading import read_regular
from unilab_metrics.storage.filesystem import write_atomic
from unilab_metrics.storage.path_text import shown_path
from unilab_schema.metrics import METRIC_SCHEMA_VERSION
from unilab_schema.phases import family_of

_MAX_BYTES = 16 * 1024 * 1024
_END_S = 60.0
"""A run ends at most so long after the last sign of its ranks; more is a clock that was set."""
_SLEW_S = 1.0
"""A wall clock that is corrected little by little is off by less."""


class _Alerts(msgspec.Struct):
    raised: int = 0
    open: int = 0


class _Bus(msgspec.Struct):
    attempt: int = 0
    ended: str = ""
    late_values: int = 0
    world_size: int = 1
    updates: int = 0
    backends: dict[str, int] = {}
    lost_frames: int = 0
    dropped_calls: dict[str, int] = {}
    troubles: dict[str, int] = {}
    sources: list[dict[str, Any]] = []
    quarantined_frames: int = 0
    alerts: _Alerts = msgspec.field(default_factory=_Alerts)


class _Shape(msgspec.Struct):
    """What readers rely on: anybody may have put the file there."""

    status: str | None = None
    bus: _Bus | None = None


def write_summary(outcome: RunOutcome) -> None:
    """Put ``run_summary.json`` in place. Raises ``OSError``."""
    text = msgspec.json.format(msgspec.json.encode(summary_fields(outcome)), indent=2)
    write_atomic(outcome.run_dir / RUN_SUMMARY_FILE, text + b"\n", file_mode(outcome.run_dir))


def read_summary(run_dir: Path) -> dict[str, Any] | None:
    """The summary of a run, ``None`` if there is none that can be read. What it says of the bus
    has the types that it was written with."""
    return _read(run_dir)[0]


def summary_fault(run_dir: Path) -> str:
    """Why the summary that is there cannot be read; empty if it can, or if there is none."""
    return _read(run_dir)[1]


def _read(run_dir: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        data = read_regular(run_dir / RUN_SUMMARY_FILE, _MAX_BYTES)
        found = msgspec.json.decode(data, type=dict[str, Any])
        msgspec.convert(found, _Shape)
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as error:
        return None, error.strerror or str(error)
    except StorageError as error:
        return None, error.reason
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return None, f"damaged: {error}"
    return found, ""


def summary_fields(outcome: RunOutcome) -> dict[str, Any]:
    """Pure. Times are ISO 8601 in UTC with ``+00:00``, durations are seconds, numbers that JSON
    does not know (NaN, infinities) are null, and nothing is rounded."""
    fields: dict[str, Any] = {name: _json_value(value) for name, value in outcome.summary.items()}
    fields.setdefault("training_wall_time_sec", outcome.elapsed_s)
    fields.setdefault("completed_iterations", _completed(outcome))
    if outcome.env_steps is not None:
        fields.setdefault("total_env_steps", outcome.env_steps)
    fields |= {
        "status": told_status(outcome.status),
        "metric_schema_version": METRIC_SCHEMA_VERSION,
        "algo": outcome.run.algorithm,
        "task": outcome.run.task,
        "sim_backend": outcome.run.sim_backend,
        "log_dir": shown_path(outcome.run_dir),
        "start_time_utc": _utc(outcome.started_unix_ns),
        "end_time_utc": _utc(outcome.ended_unix_ns),
        "wall_time_sec": _wall_time_s(outcome),
        "wandb_run_url": None,
        "bus": _bus_fields(outcome),
    }
    if outcome.status == COMPLETED:
        # An earlier attempt may have left them.
        fields.pop("error", None)
        fields.pop("error_type", None)
    elif outcome.text:
        fields.setdefault("error", outcome.text)
    return fields


def told_status(status: str) -> str:
    """What ``run_summary.json`` calls it, whose readers know four statuses. Pure."""
    return FAILED if status == STOPPED else status


def ended_in(summary: Mapping[str, Any]) -> str:
    """How the run of a summary ended, in our own words: also ``stopped``. Pure."""
    bus = cast("dict[str, Any]", summary.get("bus") or {})
    return str(bus.get("ended") or summary.get("status"))


def _wall_time_s(outcome: RunOutcome) -> float:
    """Between start and end, if nobody has set the clock meanwhile."""
    wall_s, lasted_s = (outcome.ended_unix_ns - outcome.started_unix_ns) / 1e9, outcome.lasted_s
    if lasted_s is not None and not -_SLEW_S < wall_s - lasted_s < _END_S:
        return lasted_s
    return max(wall_s, 0.0)


def _completed(outcome: RunOutcome) -> int:
    if outcome.iterations is None:
        return 0
    return outcome.iterations + (1 if _counts_from_0(outcome, outcome.iterations) else 0)


def _counts_from_0(outcome: RunOutcome, last: int) -> bool:
    """Whether iteration k is the (k + 1)th: on-policy ones count from 0 in the libraries,
    off-policy ones from 1, loops of one's own as they like. Not every iteration need be logged."""
    first, sealed = outcome.first_iteration, outcome.iterations_sealed
    if first is None:
        return sealed > last
    if first in (0, 1):
        return first == 0
    # One that went on in a directory of its own: only the libraries' own loops tell.
    is_whole = sealed > last - first
    return is_whole and family_of(outcome.run.algorithm) == "on_policy"


def _bus_fields(outcome: RunOutcome) -> dict[str, Any]:
    return {
        "attempt": outcome.attempt,
        "ended": outcome.status,
        "world_size": outcome.run.world_size,
        "updates": outcome.updates,
        "backends": dict(outcome.backends),
        "journaled_frames": sum(source.frames for source in outcome.sources),
        "lost_frames": sum(source.lost for source in outcome.sources),
        "dropped_calls": _total(source.drops for source in outcome.sources),
        "troubles": _total(source.troubles for source in outcome.sources),
        "late_values": outcome.late_values,
        "quarantined_frames": outcome.quarantined,
        "first_nonfinite": {
            tag: {"iteration": iteration, "rank": rank}
            for tag, (iteration, rank) in outcome.first_nonfinite.items()
        },
        "alerts": {
            "raised": outcome.alerts_raised,
            "open": outcome.alerts_open_count,
            "open_texts": list(outcome.alerts_open),
        },
        "unregistered_tags": list(outcome.unregistered_tags),
        "warnings": dict(outcome.warnings),
        "restarts": {
            helper: {"count": count, "by": by, "reason": reason}
            for helper, (count, by, reason) in outcome.helper_troubles.items()
        },
        "sources": [_source_fields(source) for source in outcome.sources],
    }


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for of_source in counts:
        for name, count in of_source.items():
            totals[name] = totals.get(name, 0) + count
    return totals


def _source_fields(source: SourceOutcome) -> dict[str, Any]:
    return {
        "rank": source.key.rank,
        "role": source.key.role,
        "instance": source.key.instance,
        "host": source.host,
        "pid": source.pid,
        "state": source.state,
        "ended": source.ended,
        "ending": source.ending,
        "journaled_frames": source.frames,
        "lost_frames": source.lost,
        "late_values": source.late_values,
        "last_iteration": source.last_iteration,
        "dropped_calls": dict(source.drops),
        "troubles": dict(source.troubles),
    }


def _json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, timezone.utc).isoformat()


def is_told(run_dir: Path, outcome: RunOutcome, *, of_backends: bool = True) -> bool:
    """Whether the summary that lies there says how it ended, and of all of it; ``of_backends``:
    of what they hold, too."""
    summary = read_summary(run_dir)
    if summary is None or ended_in(summary) != outcome.status:
        return False
    bus = cast("dict[str, Any]", summary.get("bus") or {})
    if of_backends and bus.get("backends") != dict(outcome.backends):
        return False
    return (bus.get("attempt"), bus.get("updates")) == (outcome.attempt, outcome.updates)
