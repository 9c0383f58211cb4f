"""What ``recover`` did, in a few lines and as JSON. Pure."""

from __future__ import annotations

from typing import Any

from unilab_metrics.aggregate.folding.refused_frames import REFUSED_FRAME
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.run.completing.backend_completion import BackendResult
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.run.verifying.verify_report import losses_line, lost_text, ranks_text, total
from unilab_metrics.wording import counted
from unilab_schema.identity import Identity


def recovery_lines(recovery: Recovery) -> list[str]:
    """For people."""
    if not recovery.did_something and recovery.is_complete:
        return [
            "nothing to do: the run is complete",
            *_ranks_lines(recovery),
            *_backend_lines(recovery),
        ]
    lines = [f"adopted      {_adopted(recovery)}"]
    for taken in recovery.taken:
        lost = lost_text(taken.lost, is_at_most=taken.is_at_most)
        why = f", {lost} lost ({'; '.join(taken.reasons) or 'unknown'})"
        lost = why if taken.lost else ""
        lines.append(
            f"             {_name(taken.identity)}: {counted(taken.records, 'record')}{lost}"
        )
    lines += [
        f"not here     {_name(identity)}: its spool is not on this node ({identity.host} had it)"
        for identity in recovery.elsewhere
    ]
    lines += [f"left alone   {path}: {why}" for path, why in recovery.refused.items()]
    lines += _ranks_lines(recovery)
    sealed = counted(recovery.iterations_sealed, "iteration")
    if recovery.supplements:
        sealed += f", {counted(recovery.supplements, 'supplement')}"
    lines.append(f"sealed       {sealed}")
    outcome = recovery.outcome
    how = "" if recovery.ended is None else " (written now)"
    text = f": {outcome.text}" if outcome.text else ""
    lines.append(f"ended        {outcome.status}{text}{how}")
    is_at_most = any(taken.is_at_most for taken in recovery.taken)
    drops = _drops(recovery)
    lines.append(losses_line(_lost_frames(outcome), drops, is_at_most=is_at_most))
    if recovery.late_values:
        late = f"{counted(recovery.late_values, 'value')} for what is complete already"
        lines.append(f"late         {late}: in the journal, in no backend")
    lines += _damage_lines(recovery)
    lines += _backend_lines(recovery)
    lines.append(f"removed      {counted(recovery.removed, 'spool')}")
    lines.append(f"time         {recovery.seconds:.2f} s")
    return lines


def recovery_fields(recovery: Recovery) -> dict[str, Any]:
    """For programs."""
    outcome = recovery.outcome
    return {
        "run_dir": str(recovery.run_dir),
        "did_something": recovery.did_something,
        "complete": recovery.is_complete,
        "status": outcome.status,
        "text": outcome.text,
        "ended_now": recovery.ended is not None,
        "attempt": outcome.attempt,
        "updates": outcome.updates,
        "adopted": [
            {
                **_identity_fields(taken.identity),
                "records": taken.records,
                "lost": taken.lost,
                "lost_is_at_most": taken.is_at_most,
                "reasons": list(taken.reasons),
            }
            for taken in recovery.taken
        ],
        "not_here": [_identity_fields(identity) for identity in recovery.elsewhere],
        "left_alone": dict(recovery.refused),
        "ranks": {"expected": recovery.learners, "missing": list(recovery.absent)},
        "iterations_sealed": recovery.iterations_sealed,
        "supplements_sealed": recovery.supplements,
        "lost_frames": _lost_frames(outcome),
        "dropped_calls": _drops(recovery),
        "damaged_records": recovery.damaged_records,
        "faults": list(recovery.faults),
        "gone": recovery.gone,
        "late_values": recovery.late_values,
        "backends": [backend._asdict() for backend in recovery.backends],
        "removed_spools": recovery.removed,
        "seconds": recovery.seconds,
    }


def _adopted(recovery: Recovery) -> str:
    records = sum(taken.records for taken in recovery.taken)
    if not recovery.taken:
        return "nothing"
    return f"{counted(records, 'record')} of {counted(len(recovery.taken), 'process', 'processes')}"


def _damage_lines(recovery: Recovery) -> list[str]:
    of_history = recovery.history_fault
    of_wal = [fault for fault in recovery.faults if fault not in (of_history, recovery.gone)]
    if not of_wal and recovery.damaged_records:
        of_wal = [f"{counted(recovery.damaged_records, 'record')} of the wal"]
    kept = "what the history and the spools have of it is kept"
    lines = [f"damage       {fault}; {kept}" for fault in of_wal]
    if of_history:
        made_good = recovery.gone or "the other half of the journal has it"
        lines.append(f"damage       {of_history}; {made_good}")
    return lines


def _ranks_lines(recovery: Recovery) -> list[str]:
    if not recovery.absent:
        return []
    ranks = ranks_text(recovery.learners, recovery.absent)
    where = "a node that does not see this directory may have their spools: see --spool"
    return [f"ranks        {ranks}; {where}"]


def _backend_lines(recovery: Recovery) -> list[str]:
    return [
        f"{backend.name:<12} {_position(backend, recovery.outcome.updates)}"
        for backend in recovery.backends
    ]


def _position(backend: BackendResult, last: int) -> str:
    moved = f"{backend.before:,} to " if backend.before != backend.after else ""
    text = f"update {moved}{backend.after:,} of {last:,}"
    return f"{text}: {backend.problem}" if backend.problem else text


def _drops(recovery: Recovery) -> dict[str, int]:
    outcome = recovery.outcome
    refused = {REFUSED_FRAME: outcome.quarantined} if outcome.quarantined else {}
    return total([*(source.drops for source in outcome.sources), refused])


def _lost_frames(outcome: RunOutcome) -> int:
    return sum(source.lost for source in outcome.sources) + outcome.quarantined


def _name(identity: Identity) -> str:
    return f"{identity.key.place} (pid {identity.pid})"


def _identity_fields(identity: Identity) -> dict[str, Any]:
    key = identity.key
    return {
        "rank": key.rank,
        "role": key.role,
        "instance": key.instance,
        "pid": identity.pid,
        "host": identity.host,
    }
