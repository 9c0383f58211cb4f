"""The lines of ranks once no newer answer comes, by themselves."""

from __future__ import annotations

from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_sidecar.ranks.ending import UNKNOWN, as_told, at_the_end
from unilab_sidecar.ranks.table import STANDING, RankLine

ZERO, ONE = SourceKey(0, LEARNER), SourceKey(1, LEARNER)
COLLECTS = SourceKey(0, COLLECTOR)


def line(
    key: SourceKey, state: str = "live", iteration: int | None = None, age_s: float | None = 1.0
) -> RankLine:
    return RankLine(key, state, age_s, iteration)


def facts(lines: list[RankLine]) -> list[tuple[SourceKey, str, int | None, int | None]]:
    return [(one.key, one.state, one.iteration, one.behind) for one in lines]


def test_while_answers_come_the_sources_say_only_who_is_gone_or_awaited() -> None:
    lines = [line(ZERO, iteration=5), line(ONE, iteration=4), line(COLLECTS)]
    sources = [line(ZERO, "gone", 9), line(ONE, "awaited", 9), line(COLLECTS, "silent")]
    assert facts(as_told(lines, sources, is_newest=False)) == [
        (ZERO, "gone", 5, None), (ONE, "awaited", 4, None), (COLLECTS, "live", None, None),
    ]  # fmt: skip
    # Who is in no answer is no line of it.
    assert as_told(lines[:1], sources[1:], is_newest=False) == lines[:1]


def test_afterwards_their_word_counts_on_all_and_lines_are_compared_again() -> None:
    lines = [line(ZERO, iteration=5), line(ONE, iteration=4), line(COLLECTS, age_s=3.0)]
    sources = [line(ZERO, "finished", 9, 0.5), line(ONE, "failed", None, 0.6)]
    told = as_told(lines, [*sources, line(SourceKey(2, LEARNER), "lost", 7)], is_newest=True)
    assert facts(told) == [
        (ZERO, "finished", 9, 0), (ONE, "failed", 4, 5), (COLLECTS, "live", None, None),
        (SourceKey(2, LEARNER), "lost", 7, 2),
    ]  # fmt: skip
    assert [one.age_s for one in told] == [0.5, 0.6, 3.0, 1.0]
    assert as_told([], [], is_newest=True) == []


def test_of_several_learners_nobody_knows_how_far_those_went_who_were_at_work() -> None:
    lines = [line(ZERO, iteration=8), line(ONE, iteration=6), line(COLLECTS)]
    made = at_the_end(lines, {ZERO, ONE, COLLECTS}, STANDING, 8)
    assert facts(made) == [
        (ZERO, UNKNOWN, 8, 0), (ONE, UNKNOWN, None, None), (COLLECTS, UNKNOWN, None, None),
    ]  # fmt: skip
    assert [one.age_s for one in made] == [None] * 3
    ended = [line(ZERO, "finished", 8), line(ONE, "failed", 6)]
    assert facts(at_the_end(ended, set(), STANDING, 8)) == [
        (ZERO, "finished", 8, 0), (ONE, "failed", 6, 2),
    ]  # fmt: skip
    assert [one.age_s for one in at_the_end(ended, set(), STANDING, 8)] == [1.0, 1.0]


def test_a_single_learner_went_as_far_as_its_run_and_its_collectors_have_no_iterations() -> None:
    made = at_the_end([line(ZERO, iteration=6), line(COLLECTS)], {ZERO}, STANDING, 9)
    assert facts(made) == [(ZERO, UNKNOWN, 9, 0), (COLLECTS, UNKNOWN, None, None)]
    # Without any there is nobody whose iteration that was.
    assert facts(at_the_end([line(COLLECTS)], set(), STANDING, 9)) == [
        (COLLECTS, UNKNOWN, None, None)
    ]


def test_nobody_is_behind_by_less_than_nothing() -> None:
    lines = [line(ZERO, "finished", 9), line(ONE, "finished", 4)]
    assert facts(at_the_end(lines, set(), STANDING, 8))[0] == (ZERO, "finished", 9, 0)
