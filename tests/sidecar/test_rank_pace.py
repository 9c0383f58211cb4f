"""Values of ranks travel only while somebody looks, and no faster than a line can carry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rank_answers import EPOCH

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.pace import Pace
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, PaceQuestion, RanksQuestion
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.ranks.pace import BYTES_PER_S, RankPace

ASKED = RanksQuestion(tuple(f"Perf/part_{number}" for number in range(25)))
RANKS = ViewState(view="ranks")


def answer(rows: int) -> RankValues:
    values = np.zeros(len(ASKED.tags)).tobytes()
    made = tuple(
        RankRow(SourceKey(rank, LEARNER), "live", 0.1, 0.1, 1, 1, 1, values, values)
        for rank in range(rows)
    )
    spreads = tuple(RankSpread(0, 0) for _ in ASKED.tags)
    return RankValues(1, EPOCH, 1, 1, rows, ASKED.tags, made, spreads)


def asked_in(pace: RankPace, looks: int, rows: int) -> int:
    """How often it is asked if each question is answered before the next look."""
    count = 0
    for _ in range(looks):
        if pace.question(ASKED, is_between=False) is not None:
            count += 1
            pace.heed(answer(rows))
    return count


def test_few_ranks_are_asked_at_every_look() -> None:
    assert asked_in(RankPace(), 20, 8) == 20


@pytest.mark.parametrize("rows", [64, 512, 1024, 4096])
def test_many_ranks_stay_within_what_a_line_carries(rows: int) -> None:
    seconds = 60
    size = sum(len(row.values) + len(row.ages_s) for row in answer(rows).rows)
    count = asked_in(RankPace(), 2 * seconds, rows)
    assert count >= 1
    assert (count - 1) * size <= seconds * BYTES_PER_S


def test_something_else_is_asked_at_once_and_keys_ask_nothing_again() -> None:
    pace = RankPace()
    assert pace.question(ASKED, is_between=True) == ASKED
    pace.heed(answer(512))
    assert pace.question(ASKED, is_between=True) is None
    other = RanksQuestion(("Loss/critic",))
    assert pace.question(other, is_between=True) == other


def test_who_looks_again_gets_values_at_once() -> None:
    pace = RankPace()
    pace.question(ASKED, is_between=False)
    pace.heed(answer(4096))
    assert pace.question(ASKED, is_between=False) is None
    pace.forget()
    assert pace.question(ASKED, is_between=False) == ASKED


def test_without_an_answer_it_is_asked_at_every_look() -> None:
    pace = RankPace()
    pace.question(ASKED, is_between=False)
    pace.heed(answer(4096))
    pace.heed(NoAnswer("gone"))
    assert pace.question(ASKED, is_between=False) == ASKED


def test_a_viewer_asks_for_ranks_only_in_their_view_and_at_that_pace() -> None:
    def of_ranks(state: ViewState) -> list[RanksQuestion]:
        asked = watching.questions(state, is_between=False)
        return [question for question in asked if isinstance(question, RanksQuestion)]

    watching = Watching("run")
    assert of_ranks(ViewState()) == []
    (asked,) = of_ranks(RANKS)
    watching.take(Batch(answers=(Answer(asked, answer(1024)),)), is_paused=False)
    watching.looked_at()
    assert [len(of_ranks(RANKS)) for _ in range(6)].count(1) <= 1
    assert of_ranks(ViewState()) == []
    assert len(of_ranks(RANKS)) == 1


def test_only_charts_of_a_run_that_goes_on_keep_room_for_what_comes() -> None:
    watching = Watching("run")
    watching.looked_at()
    assert watching.seen(ViewState()).charts.live
    watching.newest = replace(watching.newest, ended="completed")
    assert not watching.seen(ViewState()).charts.live
    watching.newest = replace(watching.newest, ended=None)
    answered = Answer(PaceQuestion(), Pace(1.0, is_paused=False))
    watching.take(Batch(answers=(answered,)), is_paused=False)
    assert not watching.seen(ViewState()).charts.live
