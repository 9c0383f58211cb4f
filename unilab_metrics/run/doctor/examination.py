"""All subjects in turn. One that fails becomes a finding of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.run.doctor import (
    backlog,
    disk,
    keys,
    leftovers,
    logs,
    processes,
    sockets,
    versions,
)
from unilab_metrics.run.doctor.finding import UNKNOWN, Finding
from unilab_metrics.run.doctor.patient import Patient

Subject = Callable[[], Iterable[Finding]]


def examine_run(run_dir: Path) -> Iterator[Finding]:
    """Everything about a run and the machine. Never raises for what it looks at."""
    patient = Patient(run_dir)
    for name, subject in (
        ("processes", processes.examine),
        ("sockets", sockets.examine),
        ("keys", keys.examine),
        ("backlog", backlog.examine),
        ("versions", versions.examine),
        ("logs", logs.examine),
    ):
        yield from _guarded(name, partial(subject, patient))
    yield from _guarded("leftovers", lambda: leftovers.examine(patient.places, in_short=True))
    yield from _guarded("disk", lambda: disk.examine(run_dir))
    yield from _guarded("versions", versions.examine_machine)


def examine_machine() -> Iterator[Finding]:
    """Only what does not belong to a run."""
    yield from _guarded("leftovers", lambda: leftovers.examine([]))
    yield from _guarded("disk", lambda: disk.examine(None))
    yield from _guarded("versions", versions.examine_machine)


def _guarded(name: str, subject: Subject) -> Iterator[Finding]:
    try:
        yield from subject()
    except PermissionError as error:
        yield Finding(
            name, UNKNOWN, f"may not look at {error.filename or 'a file'}", "ask as its owner"
        )
    except (OSError, UnilabMetricsError) as error:
        yield Finding(name, UNKNOWN, f"could not be looked at: {error}")
