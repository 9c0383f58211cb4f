"""The ranks of a run that has ended, or whose aggregator does not answer any more."""

from __future__ import annotations

import pytest
from msgspec import structs
from rank_answers import run_of

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.control import SourceStatus
from unilab_schema.identity import LEARNER, SourceKey
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.ranks.table import RankStore, RankTable
from unilab_sidecar.views.ranks import ranks


def shown(table: RankTable, columns: int = 120) -> str:
    return "\n".join(map(plain, ranks(table, Picture(), RanksState(), columns, 40).lines))


def ended(rank: int, state: str, age_s: float = 2.0) -> SourceStatus:
    return SourceStatus(SourceKey(rank, LEARNER), 1, "h", state, age_s, age_s, 5, 0)


def test_of_a_run_that_has_ended_the_states_are_the_last_ones() -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), run_of(2, collectors=0)), "sac")
    live = store.table((), (ended(0, "finished"), ended(1, "failed")))
    assert [one.state for one in live.lines] == ["live", "live"]
    last = (live.iteration or 0) + 3
    for has_refused in (False, True):
        if has_refused:
            store.add(Answer(RanksQuestion(), NoAnswer("only a live run tells it")), "sac")
        table = store.table((), (ended(0, "finished"), ended(1, "failed")), last)
        assert [one.state for one in table.lines] == ["finished", "failed"]
        assert [one.age_s for one in table.lines] == [2.0, 2.0]
        assert table.iteration == last
        # They have gone on after the answer, and nobody says how far.
        assert [one.iteration for one in table.lines] == [None, None]
    told = tuple(
        structs.replace(ended(rank, state), iteration=iteration)
        for rank, state, iteration in ((0, "finished", last), (1, "failed", last - 2))
    )
    table = store.table((), told, last)
    assert [(one.iteration, one.behind) for one in table.lines] == [(last, 0), (last - 2, 2)]
    table = RankStore().table((), told)
    assert [(one.iteration, one.behind) for one in table.lines] == [(last, 0), (last - 2, 2)]
    assert "● live" not in shown(store.table((), (), last))
    assert "? unknown" in shown(store.table((), (), last))


def test_a_single_learner_ended_where_its_run_did() -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), run_of(1, collectors=0)), "sac")
    last = (store.table().iteration or 0) + 3
    (one,) = store.table((), (ended(0, "finished"),), last).lines
    assert (one.state, one.iteration, one.behind) == ("finished", last, 0)


def test_without_a_newer_answer_the_announced_states_count() -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), run_of(2, collectors=0)), "sac")
    store.add(Answer(RanksQuestion(), NoAnswer("no answer for 6 s")), "sac")
    table = store.table((), (ended(0, "live", 0.5), ended(1, "lost", 70.0)))
    assert [(one.state, one.age_s) for one in table.lines] == [("live", 0.5), ("lost", 70.0)]


@pytest.mark.parametrize("columns", [80, 160])
def test_values_of_an_earlier_iteration_than_the_last_are_called_so(columns: int) -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), run_of(2, collectors=0)), "sac")
    told = store.table().iteration or 0
    said = f"! values as of iteration {told:,}"
    assert said not in shown(store.table((), (ended(0, "finished"),), told), columns)
    assert said in shown(store.table((), (ended(0, "finished"),), told + 3), columns)
    store.add(Answer(RanksQuestion(), NoAnswer("only a live run tells it")), "sac")
    assert f"{said}: only a live run" in shown(store.table((), (), told + 3), columns)
