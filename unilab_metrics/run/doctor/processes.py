"""Aggregator, writers and sources: do they live, are they stopped, does anybody miss them?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.doctor.finding import ERROR, OK, UNKNOWN, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.run.spool_places import live_processes
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.process_table import stat_fields, was_running
from unilab_schema.identity import Identity

_SUBJECT = "processes"
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "waiting for a disk", "Z": "a zombie"}


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings about every process of the run on this node."""
    pid = patient.aggregator_pid
    identities = [source.identity for source in patient.sources]
    living = live_processes(patient.places, identities)
    if pid is not None:
        yield _process("aggregator", pid)
    elif patient.ended is not None:
        yield Finding(_SUBJECT, OK, f"the run has ended ({patient.ended}); no aggregator is needed")
    elif living:
        yield Finding(
            _SUBJECT,
            WARNING,
            "no aggregator; frames wait in the spools until rank 0 starts another one",
            f"unilab-metrics aggregate {patient.name}   (if rank 0 has given up)",
        )
    else:
        yield Finding(
            _SUBJECT,
            ERROR,
            "the run was cut off: it has not ended, and nobody is at work on it",
            f"unilab-metrics recover {patient.name}",
        )
    for process in living:
        yield _process(str(process).partition(" (pid")[0], process.pid)
    yield from _gone(patient, {process.pid for process in living})
    for backend in patient.settings.backends:
        yield _writer(patient, backend, is_live=pid is not None)


def _process(what: str, pid: int) -> Finding:
    if not pid:
        return Finding(_SUBJECT, OK, f"{what} lives in another pid namespace")
    fields = stat_fields(pid)
    state = _STATES.get(fields[0]) if fields else None
    who = f"{what} (pid {pid})"
    if state is None:
        return Finding(_SUBJECT, OK, f"{who} lives")
    if state == "stopped":
        text = f"{who} is stopped"
        return Finding(_SUBJECT, ERROR, text, f"kill -CONT {pid}")
    return Finding(_SUBJECT, WARNING, f"{who} is {state}")


def _gone(patient: Patient, living: set[int]) -> Iterator[Finding]:
    """Sources that the journal takes for live and that hold no lease here."""
    this_boot = boot_id()
    for source in patient.sources:
        identity = source.identity
        if source.status != "live" or identity.pid in living or source.ended is not None:
            continue
        name = _name(identity)
        if identity.boot_id != this_boot:
            text = f"{name} runs on {identity.host}, which cannot be seen from here"
            yield Finding(_SUBJECT, UNKNOWN, text)
        elif _is_zombie(identity):
            yield Finding(
                _SUBJECT, WARNING, f"{name} has ended and its parent has not waited for it"
            )
        else:
            fix = "" if patient.aggregator_pid else f"unilab-metrics recover {patient.name}"
            yield Finding(_SUBJECT, WARNING, f"{name} is gone without goodbye", fix)


def _is_zombie(identity: Identity) -> bool:
    fields = stat_fields(identity.pid)
    is_same = was_running(identity.pid, identity.started_mono_ns)
    return bool(fields) and fields[0] == "Z" and is_same


def _writer(patient: Patient, backend: str, *, is_live: bool) -> Finding:
    lease = patient.bus_dir / f"writer-{backend}.lease"
    pid = owner_pid(Path(lease))
    if pid is not None:
        return _process(f"writer of {backend}", pid)
    if is_live and patient.ended is None:
        text = f"no writer of {backend}; the aggregator starts one within 30 s, or has given up"
        return Finding(_SUBJECT, WARNING, text, f"unilab-metrics write {patient.name}")
    return Finding(_SUBJECT, OK, f"no writer of {backend} is at work")


def _name(identity: Identity) -> str:
    return f"{identity.key.place} (pid {identity.pid})"
