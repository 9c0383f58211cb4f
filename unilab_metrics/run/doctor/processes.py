"""Aggregator, writers and sources: do they live, are they stopped, does anybody miss them?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

from unilab_metrics.aggregate.folding.attendance import absent_ranks
from unilab_metrics.run.doctor.finding import ERROR, OK, UNKNOWN, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.run.losses import lost_texts
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify_report import ranks_text
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.orphans import is_out_of_sight, runs_here
from unilab_metrics.storage.process_table import pid_space, stat_fields, was_running
from unilab_metrics.storage.spool_places import LiveProcess
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.wording import counted, lost_how
from unilab_schema.identity import LEARNER, Identity
from unilab_schema.updates import EventUpdate

_SUBJECT = "processes"
_MOST_LOST = 16
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "waiting for a disk", "Z": "a zombie"}


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings about every process of the run on this node."""
    pid = patient.aggregator_pid
    living = patient.living
    if patient.holder is not None and pid is not None:
        yield _process("recover" if patient.holder.is_recovery else "aggregator", pid)
    elif patient.ended is not None:
        yield Finding(_SUBJECT, OK, f"the run has ended ({patient.ended}); no aggregator is needed")
    elif patient.rank_0_pid is not None:
        text = f"no aggregator: it is being started again by rank 0 (pid {patient.rank_0_pid})"
        fix = f"unilab-metrics aggregate {patient.name}   (if rank 0 has given up)"
        yield Finding(_SUBJECT, WARNING, f"{text}; frames wait in the spools until then", fix)
    elif living:
        yield Finding(
            _SUBJECT,
            WARNING,
            f"no aggregator and no rank 0; frames wait in the spools, {_who_lives(living)}",
            patient.completion,
        )
    elif isinstance(patient.journal, Exception):
        text = "nobody is at work on the run; whether it has ended cannot be told"
        yield Finding(_SUBJECT, WARNING, text, "see what is wrong with its journal")
    else:
        yield Finding(
            _SUBJECT,
            ERROR,
            "the run was cut off: it has not ended, and nobody is at work on it",
            f"unilab-metrics recover {patient.name}",
        )
    for process in living:
        yield _process(str(process).partition(" (pid")[0], process.pid)
    yield from _gone(patient)
    if patient.ended is None:
        yield from _lost(patient)
    elif pid is None:
        yield from _lost_on_the_way(patient)
    yield from _never_came(patient)
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


def _gone(patient: Patient) -> Iterator[Finding]:
    """Sources that the journal takes for live and that hold no lease here."""
    for source in patient.sources:
        identity = source.identity
        if source.status != "live" or source.ended is not None or _is_alive(patient, identity):
            continue
        name = _name(identity)
        if is_out_of_sight(identity) and not runs_here(identity):
            text = f"{name} runs on {identity.host}, which cannot be seen from here"
            yield Finding(_SUBJECT, UNKNOWN, text)
        elif _is_zombie(identity):
            yield Finding(
                _SUBJECT, WARNING, f"{name} has ended and its parent has not waited for it"
            )
        else:
            text = f"{name} ended without close(); {_who_lives(patient.living)}"
            yield Finding(_SUBJECT, WARNING, text, _fix_of_a_loss(patient, identity))


def _lost(patient: Patient) -> Iterator[Finding]:
    """Sources of the newest attempt that the aggregator has seen die."""
    attempt = max((source.attempt for source in patient.sources), default=0)
    lost = [s for s in patient.sources if s.status == "lost" and s.attempt == attempt]
    times = _times_of_losses(patient) if lost else {}
    for source in lost[:_MOST_LOST]:
        lost_unix_ns = times.get(source.name)
        ago_s = 0.0 if lost_unix_ns is None else max(time.time() - lost_unix_ns / 1e9, 0.0)
        since = "" if lost_unix_ns is None else f" {ago_s:,.0f} s ago"
        text = f"{_name(source.identity)} {lost_how(source.ending)}{since}; {_who_lives(patient.living)}"
        yield Finding(_SUBJECT, WARNING, text, _fix_of_a_loss(patient, source.identity))
    if len(lost) > _MOST_LOST:
        more = counted(len(lost) - _MOST_LOST, "more process", "more processes")
        text = f"{more} ended without close()"
        yield Finding(_SUBJECT, WARNING, text)


def _lost_on_the_way(patient: Patient) -> Iterator[Finding]:
    """What a summary of an earlier attempt says is of no interest any more."""
    summary = read_summary(patient.run_dir) or {}
    attempt = max((source.attempt for source in patient.sources), default=0)
    if cast("dict[str, Any]", summary.get("bus") or {}).get("attempt") != attempt:
        return
    for text in lost_texts(summary):
        fix = "see what ended it, such as the kernel for want of memory (dmesg)"
        yield Finding(_SUBJECT, WARNING, text, f"{fix}; the values of the others are whole")


def _times_of_losses(patient: Patient) -> dict[str, int]:
    """Wall clock at which the aggregator said so, by the source's name."""
    found: dict[str, int] = {}
    names = [source.name for source in patient.sources if source.status == "lost"]
    with HistoryReader(patient.bus_dir) as reader:
        while records := reader.poll():
            for record in records:
                entry = record.entry
                if isinstance(entry, EventUpdate) and entry.frame.kind == "lost":
                    said = entry.frame.text
                    found |= {n: entry.frame.unix_ns for n in names if said.startswith(n)}
    return found


def _who_lives(living: list[LiveProcess]) -> str:
    roles: dict[str, list[int]] = {}
    for process in living:
        roles.setdefault(process.key.role if process.key else "process", []).append(process.pid)
    if not roles:
        return "no other process of the run lives on this node"
    parts = [
        f"{role} (pid {pids[0]})" if len(pids) == 1 else f"{role}s (pids {_few(pids)})"
        for role, pids in roles.items()
    ]
    return f"{' and '.join(parts)} {'lives' if len(living) == 1 else 'live'} on"


def _few(pids: list[int]) -> str:
    text = ", ".join(map(str, pids[:_MOST_LOST]))
    return f"{text} and {len(pids) - _MOST_LOST} more" if len(pids) > _MOST_LOST else text


def _never_came(patient: Patient) -> Iterator[Finding]:
    if isinstance(patient.journal, Exception):
        return
    data = patient.journal.state.data
    absent = absent_ranks(data)
    if not data.sources or not absent:
        return
    text = ranks_text(data.expected_learners, absent, so_far=patient.ended is None)
    fix = "see how they were started; the values of the others are whole"
    if patient.ended is None:
        fix = "iterations go on without them after 30 s; see how they were started"
    yield Finding(_SUBJECT, WARNING, text, fix)


def _fix_of_a_loss(patient: Patient, gone: Identity) -> str:
    if patient.aggregator_pid is None:
        return patient.completion
    learners = _learners_that_go_on(patient, gone)
    if not patient.living and not learners:
        return "nothing: the aggregator takes in what it left and ends the run"
    kill = f"kill {patient.living_pids}"
    if not learners:
        end = f"{kill}   (ends the others; the aggregator then ends the run)"
        return f"the aggregator takes in what it left; {end}"
    fewer = f" with n = {learners} of {counted(_expected(patient), 'rank')}"
    goes_on = f"nothing need be done: iterations go on{fewer if gone.key.role == LEARNER else ''}"
    rest = f"; only to end the run: {kill}" if patient.living_pids else ""
    return f"{goes_on}, and the aggregator takes in what it left{rest}"


def _learners_that_go_on(patient: Patient, gone: Identity) -> int:
    """Ranks of the attempt whose learner has not ended, as far as is known here."""
    ranks = {
        source.rank
        for source in patient.sources
        if source.is_learner
        and source.status == "live"
        and source.ended is None
        and source.identity != gone
        and (_is_alive(patient, source.identity) or is_out_of_sight(source.identity))
    }
    return len(ranks)


def _expected(patient: Patient) -> int:
    journal = patient.journal
    return 1 if isinstance(journal, Exception) else journal.state.data.expected_learners


def _is_alive(patient: Patient, identity: Identity) -> bool:
    return any(process.is_that_of(identity) for process in patient.living)


def _is_zombie(identity: Identity) -> bool:
    if identity.pid_space not in {0, pid_space()}:
        return False
    fields = stat_fields(identity.pid)
    is_same = was_running(identity.pid, identity.started_mono_ns)
    return bool(fields) and fields[0] == "Z" and is_same


def _writer(patient: Patient, backend: str, *, is_live: bool) -> Finding:
    lease = patient.bus_dir / f"writer-{backend}.lease"
    pid = settled_pid(lease)
    if pid is not None:
        return _process(f"writer of {backend}", pid)
    if is_live and patient.ended is None:
        text = f"no writer of {backend}; the aggregator starts one within 30 s, or has given up"
        return Finding(_SUBJECT, WARNING, text, f"unilab-metrics write {patient.name}")
    return Finding(_SUBJECT, OK, f"no writer of {backend} is at work")


def _name(identity: Identity) -> str:
    return f"{identity.key.place} (pid {identity.pid})"
