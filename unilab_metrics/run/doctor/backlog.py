"""What is not where it belongs yet, and what is damaged: spools, wal, history, backends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.aggregate.journaling.recovery import HISTORY_KINDS, WAL_KINDS, Recovered
from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import MissingPackageError, StorageError, UnknownVersionError
from unilab_metrics.run.bus_settings import SETTINGS_FILE, has_settings
from unilab_metrics.run.completing.lost_wal import wal_problem
from unilab_metrics.run.doctor import drops
from unilab_metrics.run.doctor.finding import ERROR, OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.run.verifying.damaged_files import damaged_segments, in_files, unread_files
from unilab_metrics.run.verifying.event_points import held_position
from unilab_metrics.storage.filesystem import check_private
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.records import damaged_at_end, scan
from unilab_metrics.storage.segments import list_segments, read_segment
from unilab_metrics.storage.spool_places import nameless_spools, spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.wording import agreeing, counted
from unilab_metrics.write.backends import protos

_SUBJECT = "backlog"
_MANY = 10_000


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings from the first spool to the last backend."""
    yield from _unread(patient)
    journal = patient.journal
    if isinstance(journal, UnknownVersionError):
        return  # named among the versions
    if isinstance(journal, Exception):
        fact = _fact(journal) if isinstance(journal, OSError) else str(journal)
        yield Finding(_SUBJECT, ERROR, f"the journal cannot be continued: {fact}")
        return
    yield from _spools(patient)
    yield from _damage(patient, journal)
    yield from _missing(patient, journal)
    data = journal.state.data
    last = journal.last_update
    iterations = counted(data.iterations_sealed, "iteration")
    text = f"the journal holds {counted(last, 'update')} of {iterations}"
    open_windows = len(data.windows.open)
    yield Finding(_SUBJECT, OK, f"{text}, {open_windows:,} open" if open_windows else text)
    lost = sum(source.lost_frames for source in data.sources)
    if lost:
        frames = counted(lost, "frame is", "frames are")
        yield Finding(_SUBJECT, WARNING, f"{frames} lost, and named in the journal")
    newest = [source for source in data.sources if source.attempt == data.attempt]
    yield from drops.examine(patient, newest)
    if data.ended is not None:
        yield from _backends(patient, last)
        if not os.path.lexists(patient.run_dir / RUN_SUMMARY_FILE):
            fix = patient.completion
            yield Finding(_SUBJECT, ERROR, "the run has ended without its run_summary.json", fix)


def _unread(patient: Patient) -> Iterator[Finding]:
    fixes = {SETTINGS_FILE: "the next attempt in this directory writes new ones"}
    if not has_settings(patient.run_dir):
        text = f"there is no {patient.bus_dir / SETTINGS_FILE}: other spools than those that the "
        yield Finding(_SUBJECT, WARNING, f"{text}journal names are not known", fixes[SETTINGS_FILE])
    for path, reason in unread_files(patient.run_dir).items():
        if path.parent == patient.bus_dir:
            try:
                status = path.lstat()
                check_private(path, status, directory=stat.S_ISDIR(status.st_mode))
            except StorageError:
                continue  # who may read it is the subject of the keys
        yield Finding(
            _SUBJECT, ERROR, f"{path}: {reason}", fixes.get(path.name, patient.completion)
        )


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
    for directory, reason in nameless_spools(patient.places).items():
        fix = "nothing of it can be taken in; keep it, or remove it"
        yield Finding(_SUBJECT, ERROR, f"{directory} holds {reason}", fix)
    if dead:
        text = f"{_waiting_text(dead)} in {_spools_text(orphans)}"
        fix = (
            "the aggregator takes them in within a second"
            if patient.aggregator_pid is not None
            else patient.completion
        )
        yield Finding(_SUBJECT, WARNING if patient.aggregator_pid else ERROR, text, fix)
    elif orphans:
        are = agreeing(orphans, "is", "are")
        text = f"{_spools_text(orphans)} {are} in the journal and not removed"
        yield Finding(_SUBJECT, WARNING, text, patient.completion)
    level = WARNING if waiting > _MANY else OK
    yield Finding(_SUBJECT, level, f"{_waiting_text(waiting)} in spools of live processes")


def _waiting_text(records: int) -> str:
    return counted(records, "record waits", "records wait")


def _spools_text(count: int) -> str:
    return counted(count, "spool of a dead process", "spools of dead processes")


def _damage(patient: Patient, journal: Recovered) -> Iterator[Finding]:
    for fault in journal.faults:
        yield Finding(_SUBJECT, ERROR, fault, patient.completion)
    if journal.damaged_records and not journal.wal_fault:
        names = in_files(damaged_segments(patient.bus_dir, "wal", WAL_KINDS))
        records = counted(journal.damaged_records, "record")
        text = f"the wal has {records} that cannot be read{names}"
        yield Finding(_SUBJECT, ERROR, text, patient.completion)
    limits = {path: limit for path, _, limit in journal.history_segments}
    wal = list_segments(patient.bus_dir, "wal")
    for path in (*wal, *limits):
        try:
            data = read_segment(path)[: limits.get(path)]
        except FileNotFoundError:
            continue
        is_wal = path not in limits
        found = scan(data, kinds=WAL_KINDS if is_wal else HISTORY_KINDS)
        places = len(found.damaged)
        if patient.aggregator_pid is None:
            places += damaged_at_end(data, found)
            if found.tail_reason:
                text = f"{path.name} has a torn tail ({found.tail_reason}), which does not count"
                yield Finding(_SUBJECT, OK, text)
        if places and not is_wal:
            count = counted(places, "place")
            fix = f"unilab-metrics verify {patient.name}   (backends may hold what it lacks)"
            fix = patient.completion if journal.missing else fix
            yield Finding(_SUBJECT, ERROR, f"{path.name} is damaged in {count}", fix)
    for path in sorted(patient.bus_dir.glob("*.beyond-wal")):
        text = f"{path.name}: updates whose wal was lost with a node; they do not count"
        yield Finding(_SUBJECT, WARNING, text)


def _missing(patient: Patient, journal: Recovered) -> Iterator[Finding]:
    """What one half of the journal has and the other lacks."""
    last = journal.last_update
    problem = "" if patient.aggregator_pid is not None else wal_problem(patient.run_dir, journal)
    if problem:
        yield Finding(_SUBJECT, ERROR, problem, "put the wal back from a copy")
    lacking = journal.state.data.next_update - 1 - last
    if lacking > 0 and patient.aggregator_pid is None and not journal.faults:
        names = in_files([path.name for path in list_segments(patient.bus_dir, "history")])
        text = f"the history lacks {counted(lacking, 'update')} that the wal accounts for{names}"
        yield Finding(_SUBJECT, ERROR, text, patient.completion)


def _backends(patient: Patient, last: int) -> Iterator[Finding]:
    for backend in patient.settings.backends:
        if backend != "tensorboard":
            continue
        try:
            protos.load()
            position = held_position(patient.run_dir).position
        except OSError as error:
            yield Finding(_SUBJECT, ERROR, f"{backend} cannot be read: {_fact(error)}")
            continue
        except MissingPackageError as error:
            text = f"{backend} cannot be read or written: it needs the package {error.package}"
            yield Finding(_SUBJECT, ERROR, text, missing_fix(patient, error))
            continue
        held = position.update if position is not None else 0
        if held < last:
            text = f"{backend} lacks the updates after {held:,} of {last:,}"
            yield Finding(_SUBJECT, ERROR, text, patient.completion)
        else:
            text = f"{backend} holds all there is, {counted(last, 'update')}"
            yield Finding(_SUBJECT, OK, text)


def missing_fix(patient: Patient, error: MissingPackageError) -> str:
    """What installs the package and completes the backend."""
    return f"pip install {error.package} && unilab-metrics write {patient.name}"


def _fact(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
