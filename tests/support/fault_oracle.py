"""What a training has published, by its ledgers, against what is in its journal and its files.

The oracle knows nothing of sources, sequences or acknowledgements: each process has tags of its
own, so each line of a ledger can be looked for in the history and in the event files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from fault_ledgers import Ledger, read_ledgers

from unilab_metrics.run.verifying.event_points import held_position, marked_points
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import AttemptOpened, PointsUpdate, RunEnded, Supplement, Update

_OURS = ("Ledger/", "Point/", "Count/", "Sum/", "Loss/value")


@dataclass
class Outcome:
    """``published``: calls that returned. ``journaled``, ``in_tensorboard``: of these, or as
    many values in event files.
    ``recoveries_s``: for each kill, until an iteration published after it was sealed, or until
    the run was complete if none was."""

    published: int = 0
    journaled: int = 0
    in_tensorboard: int = 0
    lost: int = 0
    duplicated: int = 0
    faults: list[str] = field(default_factory=list[str])
    recoveries_s: list[float] = field(default_factory=list[float])

    def lack(self, count: int, what: str) -> None:
        if count:
            self.lost += count
            self.faults.append(f"{count} lost: {what}")

    def double(self, count: int, what: str) -> None:
        if count:
            self.duplicated += count
            self.faults.append(f"{count} doubled: {what}")


@dataclass
class Journal:
    """The history in the terms of the ledgers. ``own``: tag to its (step, value) in order.

    ``in_backend``: what of it a backend is to hold, ``in_files``: what it holds.
    """

    own: dict[str, list[tuple[int, float]]] = field(
        default_factory=dict[str, list[tuple[int, float]]]
    )
    in_backend: Counter[tuple[str, int, float]] = field(
        default_factory=Counter[tuple[str, int, float]]
    )
    in_files: Counter[tuple[str, int, float]] = field(
        default_factory=Counter[tuple[str, int, float]]
    )
    updates: list[tuple[int, int, int, dict[str, float]]] = field(
        default_factory=list[tuple[int, int, int, dict[str, float]]]
    )
    ended: str | None = None


def read_journal(run_dir: Path) -> Journal:
    journal = Journal()
    attempt = 0
    with HistoryReader(bus_directory(run_dir)) as reader:
        while records := reader.poll():
            for record in records:
                entry = record.entry
                if isinstance(entry, AttemptOpened):
                    attempt, journal.ended = max(attempt, entry.attempt), None
                elif isinstance(entry, RunEnded):
                    journal.ended = entry.status
                elif isinstance(entry, Update):
                    values = dict(zip(record.tags, record.values().tolist(), strict=True))
                    journal.updates.append(
                        (entry.attempt, entry.iteration, entry.sealed_mono_ns, values)
                    )
                for tag, step, value, of_attempt in _values(record):
                    journal.own.setdefault(tag, []).append((step, value))
                    if of_attempt is None or of_attempt >= attempt:
                        journal.in_backend[tag, step, float(np.float32(value))] += 1
    position = held_position(run_dir).position
    if position is not None:
        journal.in_files.update(marked_points(run_dir, position))
    return journal


def _values(record: HistoryRecord) -> Iterator[tuple[str, int, float, int | None]]:
    entry = record.entry
    if isinstance(entry, Update | Supplement):
        for tag, value in zip(record.tags, record.values().tolist(), strict=True):
            yield tag, entry.iteration, value, entry.attempt
    elif isinstance(entry, PointsUpdate):
        for point in entry.frame.points:
            yield point.tag, point.step, point.value, None


class Run(Protocol):
    """A training that has come to its end; see ``FaultTraining``."""

    ledgers: Path
    run_dir: Path
    kills: list[tuple[str, int]]
    ended_mono_ns: int


def compare(run: Run) -> Outcome:
    """The whole comparison."""
    outcome = Outcome()
    ledgers = read_ledgers(run.ledgers)
    journal = read_journal(run.run_dir)
    if journal.ended is None:
        outcome.faults.append("the history has no end")
    _check_iterations(outcome, ledgers, journal)
    _check_means(outcome, ledgers, journal)
    for ledger in ledgers:
        if ledger.place.startswith("collector"):
            _check_reports(outcome, ledger, ledgers, journal)
        _check_own(outcome, f"Point/{ledger.name}", ledger.points, journal)
    _check_files(outcome, journal)
    verified = verify_run(run.run_dir)
    if verified.behind or verified.lost_frames or verified.dropped_calls:
        outcome.faults.append(f"verify: {verified}")
    outcome.recoveries_s = [
        _recovery_s(mono_ns, ledgers, journal, run.ended_mono_ns) for _, mono_ns in run.kills
    ]
    return outcome


def _check_iterations(outcome: Outcome, ledgers: list[Ledger], journal: Journal) -> None:
    for ledger in ledgers:
        if not ledger.place.startswith("learner"):
            continue
        _check_own(outcome, f"Ledger/{ledger.name}", sorted(ledger.iterations), journal)
    counted = Counter((attempt, iteration) for attempt, iteration, _, _ in journal.updates)
    outcome.double(sum(n - 1 for n in counted.values()), "updates of one iteration")


def _check_own(outcome: Outcome, name: str, published: list[int], journal: Journal) -> None:
    """Each number once and unchanged; one more if the process died before it wrote it down."""
    found = journal.own.get(name, [])
    counts = Counter(step for step, _ in found)
    outcome.published += len(published)
    outcome.journaled += sum(1 for number in published if counts[number])
    outcome.in_tensorboard += sum(1 for n in published if journal.in_files[name, n, float(n)])
    missing = [number for number in published if not counts[number]]
    outcome.lack(len(missing), f"{name}: {missing[:5]}")
    outcome.double(sum(n - 1 for n in counts.values()), name)
    extra = sorted(set(counts) - set(published))
    last = published[-1] if published else -1
    if len(extra) > 1 or any(number <= last for number in extra):
        outcome.faults.append(f"{name}: never published: {extra[:5]}")
    if any(value != step for step, value in found):
        outcome.faults.append(f"{name}: values changed")


def _check_means(outcome: Outcome, ledgers: list[Ledger], journal: Journal) -> None:
    """The mean over the ranks that are in an update, from what they wrote down themselves."""
    by_name = {f"Ledger/{ledger.name}": ledger for ledger in ledgers}
    for attempt, iteration, _, values in journal.updates:
        shares = [by_name[tag].iterations.get(iteration) for tag in values if tag in by_name]
        if not shares or None in shares:
            # Of an iteration whose process died before it wrote it down.
            continue
        mean = sum(share for share in shares if share is not None) / len(shares)
        if abs(values["Loss/value"] - mean) > 1e-9:
            outcome.faults.append(
                f"iteration {iteration} of attempt {attempt}: {values['Loss/value']}, not {mean}"
            )


def _check_reports(
    outcome: Outcome, ledger: Ledger, ledgers: list[Ledger], journal: Journal
) -> None:
    """Reports are summed up: none is counted twice, none is missing but those for which there
    was no iteration any more."""
    counted = int(sum(value for _, value in journal.own.get(f"Count/{ledger.name}", [])))
    total = int(sum(value for _, value in journal.own.get(f"Sum/{ledger.name}", [])))
    last = _last_learner_ns(ledger, ledgers)
    due = sum(1 for _, after in ledger.spans_ns.values() if after < last)
    outcome.published += due
    outcome.journaled += min(counted, due)
    tag = f"Count/{ledger.name}"
    written = sum(n * value for (name, _, value), n in journal.in_files.items() if name == tag)
    outcome.in_tensorboard += min(int(written), due)
    outcome.lack(max(due - counted, 0), f"{ledger.name}: {counted} of {due} reports")
    outcome.double(max(counted - ledger.reports - 1, 0), ledger.name)
    if total != counted * (counted + 1) // 2:
        outcome.faults.append(f"{ledger.name}: {counted} reports with sum {total}")


def _last_learner_ns(ledger: Ledger, ledgers: list[Ledger]) -> int:
    """When the last iteration of this rank and attempt was logged, at the earliest; 0 if there is
    none that a process's reports must be in."""
    _, rank, attempt, _ = ledger.name.split("-")
    if _is_of_an_earlier_attempt(ledger, ledgers):
        return 0
    stamps = [
        before
        for other in ledgers
        if other.name.startswith(f"learner-{rank}-{attempt}-")
        for before, _ in other.spans_ns.values()
    ]
    return max(stamps, default=0)


def _is_of_an_earlier_attempt(ledger: Ledger, ledgers: list[Ledger]) -> bool:
    """Whether a process that came and went between two rank 0s belongs to the earlier one, which
    has no iteration any more: see "Between two attempts" in ``schema/README.md``. An earlier one
    that has said nothing may be taken for still at work."""
    zeros = [other for other in ledgers if other.place == "learner-0"]
    before = [zero for zero in zeros if zero.attempt < ledger.attempt]
    starts = [z.started_ns for z in zeros if z.attempt >= ledger.attempt and z.started_ns]
    if not before or not starts:
        return bool(before)
    earlier, own_ns = max(before, key=lambda zero: zero.attempt), min(starts)
    last_ns = max((after for _, after in ledger.spans_ns.values()), default=0)
    is_near = ledger.started_ns - earlier.started_ns < own_ns - ledger.started_ns
    return last_ns < own_ns and (is_near or not earlier.spans_ns)


def _check_files(outcome: Outcome, journal: Journal) -> None:
    wanted, found = (
        Counter({point: n for point, n in points.items() if point[0].startswith(_OURS)})
        for points in (journal.in_backend, journal.in_files)
    )
    outcome.lack(sum((wanted - found).values()), "in the journal and not in TensorBoard")
    outcome.double(sum((found - wanted).values()), "in TensorBoard and not in the journal")


def _recovery_s(mono_ns: int, ledgers: list[Ledger], journal: Journal, ended_mono_ns: int) -> float:
    """Until an iteration that was logged after the kill is sealed, or else the run complete."""
    by_name = {f"Ledger/{ledger.name}": ledger for ledger in ledgers}
    for _, iteration, sealed_ns, values in journal.updates:
        for tag in values:
            ledger = by_name.get(tag)
            span = ledger.spans_ns.get(iteration) if ledger else None
            if span is not None and span[0] > mono_ns:
                return max(sealed_ns - mono_ns, 0) / 1e9
    return (ended_mono_ns - mono_ns) / 1e9
