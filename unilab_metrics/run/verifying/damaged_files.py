"""Which files of a run are damaged, for messages that name them. Reads only."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import StorageError
from unilab_metrics.run.bus_settings import SETTINGS_FILE, has_settings, settings_fault
from unilab_metrics.run.summary import summary_fault
from unilab_metrics.storage.records import damaged_at_end, scan
from unilab_metrics.storage.segments import (
    DAMAGED_SUFFIX,
    list_segments,
    parse_segment_name,
    read_segment,
    read_segment_header,
)
from unilab_metrics.transport.rendezvous import bus_directory

_MOST_NAMES = 4


def damaged_segments(bus_dir: Path, prefix: str, kinds: Container[int]) -> list[str]:
    """Names of the segments with records, or a header, that cannot be read; a tail that a kill
    tore off is no damage. What vanishes meanwhile is left out."""
    return [path.name for path in list_segments(bus_dir, prefix) if _is_damaged(path, kinds)]


def segments_set_aside(bus_dir: Path, prefix: str) -> list[str]:
    """Names of the segments that were kept when damage was found in them, or in their neighbours."""
    try:
        names = sorted(path.name for path in bus_dir.glob(f"{prefix}-*{DAMAGED_SUFFIX}"))
    except OSError:
        return []
    return [name for name in names if _is_segment(name.removesuffix(DAMAGED_SUFFIX), prefix)]


def unread_files(run_dir: Path) -> dict[Path, str]:
    """Settings and summary that are there and cannot be read, and why."""
    settings, summary = settings_fault(run_dir), summary_fault(run_dir)
    found: dict[Path, str] = {}
    if settings and has_settings(run_dir):
        what = "spools that the journal has not heard of are not known"
        found[bus_directory(run_dir) / SETTINGS_FILE] = f"{settings}; {what}"
    if summary:
        found[run_dir / RUN_SUMMARY_FILE] = summary
    return found


def in_files(names: list[str]) -> str:
    """`` (in a, b)``, or nothing. Pure."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f" (in {', '.join(names[:_MOST_NAMES])}{more})" if names else ""


def _is_segment(name: str, prefix: str) -> bool:
    parsed = parse_segment_name(name)
    return parsed is not None and parsed[0] == prefix


def _is_damaged(path: Path, kinds: Container[int]) -> bool:
    try:
        read_segment_header(path)
        data = read_segment(path)
    except FileNotFoundError:
        return False
    except (OSError, StorageError):
        return True
    found = scan(data, kinds=kinds)
    return bool(found.damaged or damaged_at_end(data, found))
