"""The last words of the helpers."""

from __future__ import annotations

from collections.abc import Iterator

from unilab_metrics.config import AGGREGATOR_LOG_FILE
from unilab_metrics.run.doctor.finding import OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.run.processes import last_log_line, writer_log

_SUBJECT = "logs"
_BAD_WORDS = ("Error", "error:", "Traceback", "failed", "no room", "file-size limit", "refused")
_MOST_CHARS = 160


def examine(patient: Patient) -> Iterator[Finding]:
    """One finding per log file."""
    names = [AGGREGATOR_LOG_FILE, *map(writer_log, patient.settings.backends)]
    for name in names:
        path = patient.bus_dir / name
        if not path.exists():
            continue
        line = last_log_line(patient.run_dir, name)
        is_bad = any(word in line for word in _BAD_WORDS)
        fix = f"tail -n 30 {path}" if is_bad else ""
        text = f"{name}: {line[:_MOST_CHARS] or 'empty'}"
        yield Finding(_SUBJECT, WARNING if is_bad else OK, text, fix)
