"""What is known of every rank: answers of the aggregator in, a table out. Pure.

How slow a rank is, is the time that it works: its iteration wall without its wait in gradient
collectives, where every rank measures that; else a rank that keeps the others waiting would look
like them. All of it is made of the same means over two seconds of each source's frames, so that a
phase fits its wall and the mark does not jump about; ages and iterations are the newest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.control import SourceStatus
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.known_names import STEPS_PER_S, tag_of
from unilab_schema.phases import (
    ITERATION_WALL,
    PhaseSpec,
    collector_rows,
    is_of_its_own,
    learner_slices,
)
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.questions import Answer
from unilab_sidecar.progress.source_states import shown_state
from unilab_sidecar.ranks.ending import as_told, at_the_end
from unilab_sidecar.values.means import mean

GRADIENT_SYNC_MS = "Perf/dp_gradient_sync_ms_per_rank"
STALE_S = 2.0
"""A value so much older than its source's newest one is of an earlier iteration."""
STANDING = frozenset({"live", "silent", "awaited"})


class RankValue(NamedTuple):
    """``value``: a mean, see ``RankRow``; ``age_s``: of the newest one. ``is_stale``: the source
    has sent newer values without this tag."""

    value: float
    age_s: float
    is_stale: bool


class SlowestPhase(NamedTuple):
    """The phase that takes most of a source's time."""

    label: str
    short_label: str
    ms: float


@dataclass(frozen=True, slots=True)
class RankLine:
    """One source. ``age_s``: since its newest frame, else its last message; ``None`` if nobody
    knows. ``behind``: iterations behind the newest learner. ``wall_ms`` and ``work_ms``: of a
    learner's iteration, as in the module's words; ``over``: how much the work is over the mean, as a fraction."""

    key: SourceKey
    state: str
    age_s: float | None = None
    iteration: int | None = None
    behind: int | None = None
    wall_ms: float | None = None
    phase: SlowestPhase | None = None
    work_ms: float | None = None
    over: float | None = None
    values: Mapping[str, RankValue] = field(default_factory=dict[str, RankValue])

    @property
    def is_learner(self) -> bool:
        """Whether it has iterations."""
        return self.key.role == LEARNER


@dataclass(frozen=True, slots=True)
class RankTable:
    """``lines`` by rank, learners before their collectors. ``spreads``: each tag over the sources
    that are not lost, those without a line too. ``samples``: the most frames that a mean is over, 0
    where the aggregator tells newest values alone. ``as_of_iteration``: the newest of the answer that the
    values are of, where there are newer ones that nobody tells. ``is_of_another_moment``: the display
    stands still, and not at the moment of the answer. ``expected``: learner ranks of the run, 0 if
    nobody says. ``slowest``: the learner that works longest, if one is at least 1 % over the mean. ``without_sync``: how slow a
    rank is does not count its wait for the others. ``left_out``: tags and rows that did not fit
    the answer. ``problem``: why there are no values, or no newer ones. ``phases``: of learners and
    collectors. ``known``: all tags of the run, to choose from."""

    lines: tuple[RankLine, ...] = ()
    spreads: Mapping[str, RankSpread] = field(default_factory=dict[str, RankSpread])
    expected: int = 0
    iteration: int | None = None
    slowest: SourceKey | None = None
    mean_work_ms: float | None = None
    without_sync: bool = False
    left_out: tuple[int, int] = (0, 0)
    samples: int = 0
    as_of_iteration: int | None = None
    is_of_another_moment: bool = False
    problem: str = ""
    has_answer: bool = False
    phases: tuple[PhaseSpec, ...] = ()
    known: tuple[str, ...] = ()


def at_work(table: RankTable) -> list[RankLine]:
    """Whose values count while there is anybody; of the others they are of the past."""
    return [one for one in table.lines if one.state in STANDING]


def asked_tags(
    algorithm: str, chosen: tuple[str, ...], there: Collection[str] = ()
) -> tuple[str, ...]:
    """What a view of the ranks asks for: what its columns are made of, and the chosen tags.
    ``there``: all tags of the run, for the phases of its user."""
    phases = (*learner_slices(algorithm, there), *_collector_slices(algorithm, there))
    pace = tag_of("steps_per_s", there) or STEPS_PER_S
    own = (ITERATION_WALL, pace, GRADIENT_SYNC_MS, *(phase.tag for phase in phases))
    return tuple(dict.fromkeys((*own, *chosen)))


class RankStore:
    """Keeps the newest answer. One owner, no locks."""

    def __init__(self) -> None:
        self._table = RankTable()
        self._is_answered = False

    def add(self, answer: Answer, algorithm: str) -> None:
        """Takes an answer of the feed. What was known stays while there is no newer word."""
        reply = answer.reply
        if isinstance(reply, NoAnswer):
            self._table = replace(self._table, problem=reply.text)
            self._is_answered = False
        if not isinstance(reply, RankValues):
            return
        self._is_answered = True
        lines = tuple(_line(row, reply.tags, algorithm) for row in reply.rows)
        lines, without_sync = _with_work(lines)
        self._table = RankTable(
            _compared(lines),
            dict(zip(reply.tags, reply.spreads, strict=True)),
            reply.expected_learners,
            max((line.iteration for line in lines if line.iteration is not None), default=None),
            without_sync=without_sync,
            left_out=(reply.left_out_tags, reply.left_out_rows),
            samples=max((row.samples for row in reply.rows), default=0),
            has_answer=True,
            phases=(
                *learner_slices(algorithm, reply.tags),
                *_collector_slices(algorithm, reply.tags),
            ),
        )

    def table(
        self,
        known: tuple[str, ...] = (),
        sources: tuple[SourceStatus, ...] = (),
        last_iteration: int | None = None,
    ) -> RankTable:
        """As of the newest answer. ``sources``: what the picture knows of them; it stands in for
        an answer, and its word counts on who is gone, and on all once no newer answer comes.
        ``last_iteration``: of a run that has ended; ``None`` while it goes on."""
        table = replace(self._table, known=known)
        of_sources = [_of_source(source) for source in sources]
        is_newest = not self._is_answered or last_iteration is not None
        lines = as_told(table.lines, of_sources, is_newest=is_newest)
        if last_iteration is not None:
            said = {source.key for source in sources if source.iteration is not None}
            standing = {one.key for one in table.lines if one.state in STANDING} - said
            lines = at_the_end(lines, standing, STANDING, last_iteration)
            table = replace(table, iteration=last_iteration)
        lines = tuple(sorted(lines, key=_place))
        told, newest = self._table.iteration, table.iteration
        is_older = not self._is_answered or (told is not None and told < (newest or 0))
        as_of = told if is_older and table.has_answer else None
        table = replace(table, lines=lines, as_of_iteration=as_of)
        working = {line.key: line.work_ms for line in lines if _counts(line)}
        slowest = max(working, key=lambda key: working[key] or 0.0, default=None)
        over = next((line.over for line in lines if line.key == slowest), None)
        mean_ms = mean([ms or 0.0 for ms in working.values()]) if working else None
        is_slow = over is not None and over >= _NOTABLE and len(working) > 1
        return replace(table, slowest=slowest if is_slow else None, mean_work_ms=mean_ms)


_NOTABLE = 0.01


def _line(row: RankRow, tags: tuple[str, ...], algorithm: str) -> RankLine:
    numbers = struct.unpack(f"<{len(tags)}d", row.values)
    ages = struct.unpack(f"<{len(tags)}d", row.ages_s)
    newest_s = min((age for age in ages if not math.isnan(age)), default=0.0)
    values = {
        tag: RankValue(number, age, age - newest_s > STALE_S)
        for tag, number, age in zip(tags, numbers, ages, strict=True)
        if not math.isnan(age)
    }
    is_learner = row.key.role == LEARNER
    slices = learner_slices(algorithm, tags) if is_learner else _collector_slices(algorithm, tags)
    phases = [
        SlowestPhase(phase.label, phase.short_label, phase.to_ms(values[phase.tag].value))
        for phase in slices
        if phase.tag in values and math.isfinite(values[phase.tag].value)
    ]
    wall_ms = values[ITERATION_WALL].value * 1e3 if ITERATION_WALL in values else None
    if wall_ms is None and phases and is_learner:
        wall_ms = sum(phase.ms for phase in phases)
    return RankLine(
        row.key,
        shown_state(row.state, row.ended),
        row.age_s if row.frame_age_s is None else row.frame_age_s,
        row.iteration,
        wall_ms=wall_ms if is_learner else None,
        phase=max(phases, key=lambda phase: phase.ms, default=None),
        values=values,
    )


def _with_work(lines: tuple[RankLine, ...]) -> tuple[tuple[RankLine, ...], bool]:
    """The lines with how long each learner works, and whether their waits are taken out."""
    timed = [one for one in lines if one.wall_ms is not None and math.isfinite(one.wall_ms)]
    syncs = {one.key: one.values[GRADIENT_SYNC_MS].value for one in timed
             if GRADIENT_SYNC_MS in one.values}  # fmt: skip
    without = bool(timed) and len(syncs) == len(timed) and all(map(math.isfinite, syncs.values()))
    works = {
        one.key: max((one.wall_ms or 0.0) - (syncs[one.key] if without else 0.0), 0.0)
        for one in timed
    }
    return tuple(replace(one, work_ms=works.get(one.key)) for one in lines), without


def _compared(lines: tuple[RankLine, ...]) -> tuple[RankLine, ...]:
    """The lines beside each other: how far behind the newest, how much slower than the mean."""
    newest = max((one.iteration for one in lines if one.iteration is not None), default=None)
    counted = [one.work_ms for one in lines if _counts(one) and one.work_ms is not None]
    mean_ms = mean(counted) if counted else 0.0
    return tuple(
        replace(
            one,
            behind=None if one.iteration is None or newest is None else newest - one.iteration,
            over=one.work_ms / mean_ms - 1 if one.work_ms is not None and mean_ms > 0 else None,
        )
        for one in lines
    )


def _counts(one: RankLine) -> bool:
    return one.work_ms is not None and one.state in STANDING


def _of_source(source: SourceStatus) -> RankLine:
    age_s = source.age_s if source.frame_age_s is None else source.frame_age_s
    return RankLine(source.key, source.state, age_s, source.iteration)


def _place(one: RankLine) -> tuple[int, bool, SourceKey]:
    return one.key.rank, not one.is_learner, one.key


def _collector_slices(algorithm: str, there: Collection[str]) -> tuple[PhaseSpec, ...]:
    """What may be a collector's slowest phase: no details, but those of its user."""
    rows = collector_rows(algorithm, there)
    return tuple(phase for phase in rows if phase.exclusive or is_of_its_own(phase, rows))
