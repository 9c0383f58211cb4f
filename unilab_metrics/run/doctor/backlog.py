"""What is not where it belongs yet, and what is damaged: spools, wal, history, backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.errors import UnknownVersionError
from unilab_metrics.run.doctor.finding import ERROR, OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.run.event_points import held_position
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_places import spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader

_SUBJECT = "backlog"
_MANY = 10_000


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings from the first spool to the last backend."""
    journal = patient.journal
    if isinstance(journal, UnknownVersionError):
        return  # named among the versions
    if isinstance(journal, Exception):
        yield Finding(_SUBJECT, ERROR, f"the journal cannot be continued: {journal}")
        return
    yield from _spools(patient)
    yield from _damage(patient, journal.damaged_records)
    data = journal.state.data
    last = journal.last_update
    text = f"the journal holds {last:,} updates of {data.iterations_sealed:,} iterations"
    open_windows = len(data.windows.open)
    yield Finding(_SUBJECT, OK, f"{text}, {open_windows:,} open" if open_windows else text)
    lost = sum(source.lost_frames for source in data.sources)
    if lost:
        yield Finding(_SUBJECT, WARNING, f"{lost:,} frames are lost, and named in the journal")
    if data.ended is not None:
        yield from _backends(patient, last)
        if read_summary(patient.run_dir) is None:
            fix = patient.completion
            yield Finding(_SUBJECT, ERROR, "the run has ended without its run_summary.json", fix)


def _spools(patient: Patient) -> Iterator[Finding]:
    cursors = {Path(source.identity.spool_path): source.cursor for source in patient.sources}
    waiting, dead, orphans = 0, 0, 0
    for directory in spools_in(patient.places):
        records = max(SpoolReader(directory).last() - cursors.get(directory, 0), 0)
        if not is_free(directory / LEASE_NAME):
            waiting += records
        else:
            orphans += 1
            dead += records
    if dead:
        text = f"{dead:,} records wait in {_spools_text(orphans)}"
        fix = (
            "the aggregator takes them in within a second"
            if patient.aggregator_pid is not None
            else patient.completion
        )
        yield Finding(_SUBJECT, WARNING if patient.aggregator_pid else ERROR, text, fix)
    elif orphans:
        verb = "is" if orphans == 1 else "are"
        text = f"{_spools_text(orphans)} {verb} in the journal and not removed"
        yield Finding(_SUBJECT, WARNING, text, patient.completion)
    level = WARNING if waiting > _MANY else OK
    yield Finding(_SUBJECT, level, f"{waiting:,} records wait in spools of live processes")


def _spools_text(count: int) -> str:
    return "1 spool of a dead process" if count == 1 else f"{count} spools of dead processes"


def _damage(patient: Patient, damaged_wal: int) -> Iterator[Finding]:
    if damaged_wal:
        text = f"the wal has {damaged_wal:,} records that cannot be read"
        fix = f"unilab-metrics verify {patient.name}   (says what is missing)"
        yield Finding(_SUBJECT, ERROR, text, fix)
    for prefix in ("wal", "history"):
        for path in list_segments(patient.bus_dir, prefix):
            try:
                found = scan(path.read_bytes())
            except FileNotFoundError:
                continue
            if found.damaged and prefix == "history":
                places = len(found.damaged)
                yield Finding(_SUBJECT, ERROR, f"{path.name} is damaged in {places:,} places")
            if found.tail_reason and patient.aggregator_pid is None:
                text = f"{path.name} has a torn tail ({found.tail_reason}), which does not count"
                yield Finding(_SUBJECT, OK, text)
    for path in sorted(patient.bus_dir.glob("*.beyond-wal")):
        text = f"{path.name}: updates whose wal was lost with a node; they do not count"
        yield Finding(_SUBJECT, WARNING, text)


def _backends(patient: Patient, last: int) -> Iterator[Finding]:
    for backend in patient.settings.backends:
        if backend != "tensorboard":
            continue
        position = held_position(patient.run_dir).position
        held = position.update if position is not None else 0
        if held < last:
            text = f"{backend} lacks the updates after {held:,} of {last:,}"
            yield Finding(_SUBJECT, ERROR, text, patient.completion)
        else:
            yield Finding(_SUBJECT, OK, f"{backend} holds all {last:,} updates")
