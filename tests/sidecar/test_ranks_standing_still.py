"""The ranks while the display stands still: nobody keeps what single ranks have sent, and the screen
says of when it is."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from rank_answers import ITERATION, run_of
from ranks_screen import USUAL

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.requests import RankValues
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.table import RankTable
from unilab_sidecar.ranks.watching import RankWatching
from unilab_sidecar.views.ranks import ranks

LIVE = ViewState(view="ranks")
STILL = replace(LIVE, paused_unix_s=1.0)
NOW = Picture(iteration=ITERATION)
THEN = Picture(iteration=77, is_past=True)
KNOWN = ("Loss/critic",)


def later(answer: RankValues, iterations: int) -> RankValues:
    rows = tuple(
        row if row.iteration is None else structs.replace(row, iteration=row.iteration + iterations)
        for row in answer.rows
    )
    return structs.replace(answer, rows=rows)


def ask(watching: RankWatching, state: ViewState) -> RanksQuestion | None:
    return watching.question(NOW, state, is_between=False)


def told(watching: RankWatching, state: ViewState, reply: RankValues | NoAnswer) -> None:
    question = ask(watching, state)
    assert question is not None
    watching.answer(Answer(question, reply), "sac")


def text(table: RankTable, picture: Picture) -> str:
    return "\n".join(plain(line) for line in ranks(table, picture, USUAL, 120, 40).lines)


def still(watching: RankWatching, past: Picture | None = None) -> RankTable:
    return watching.table(NOW, KNOWN, past, is_paused=True)


def live(watching: RankWatching) -> RankTable:
    return watching.table(NOW, KNOWN, None, is_paused=False)


def test_it_stands_still_with_the_display_and_asks_nobody() -> None:
    watching = RankWatching()
    told(watching, LIVE, run_of(3))
    before = live(watching)
    assert ask(watching, STILL) is None
    assert still(watching) == before
    assert "not of this moment" not in text(before, NOW)


def test_an_answer_that_was_on_its_way_changes_nothing_that_stands_still() -> None:
    watching = RankWatching()
    told(watching, LIVE, run_of(3))
    before = live(watching)
    question = ask(watching, LIVE)
    assert question is not None
    watching.answer(Answer(question, later(run_of(3), 40)), "sac")
    assert still(watching) == before
    assert live(watching).iteration == ITERATION + 40


def test_opened_while_the_display_stands_still_it_asks_once_and_says_as_of_when_it_is() -> None:
    watching = RankWatching()
    live(watching)
    told(watching, STILL, later(run_of(3), 40))
    assert ask(watching, STILL) is None
    shown = text(still(watching), NOW)
    assert (
        f"! not of this moment: single ranks are known as of iteration {ITERATION + 40:,}" in shown
    )
    assert "Asking" not in shown
    assert "not of this moment" not in text(live(watching), NOW)


def test_at_a_moment_of_the_past_it_says_that_it_is_of_another_one() -> None:
    watching = RankWatching()
    told(watching, LIVE, run_of(3))
    live(watching)
    shown = text(still(watching, THEN), THEN)
    assert f"! not of this moment: single ranks are known as of iteration {ITERATION:,}" in shown
    assert "not of this moment" not in text(still(watching), NOW)


def test_tags_that_are_chosen_meanwhile_are_asked_for() -> None:
    watching = RankWatching()
    told(watching, LIVE, run_of(3))
    live(watching)
    chosen = replace(STILL, ranks=replace(STILL.ranks, tags=("Policy/entropy",)))
    told(watching, chosen, later(run_of(3), 2))
    assert ask(watching, chosen) is None
    assert still(watching).is_of_another_moment


def test_without_an_answer_it_says_why_and_asks_again() -> None:
    watching = RankWatching()
    live(watching)
    told(watching, STILL, NoAnswer("only a live run tells the values of its ranks"))
    shown = text(still(watching, THEN), THEN)
    assert "! No values of single ranks: only a live run tells" in shown
    assert "! not of this moment: states are those that are known last" in shown
    assert ask(watching, STILL) is not None
