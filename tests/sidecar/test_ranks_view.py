"""The ranks' screen: every rank's line, who is lost, least and most, keys."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from rank_answers import reply, row, run_of, table_of
from ranks_screen import PICTURE, USUAL, WALL, learners, screen, text

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.control import SourceStatus
from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.ranks.state import KEYS, ORDERS, RanksState, press
from unilab_sidecar.ranks.table import RankStore
from unilab_sidecar.views.ranks import context, ranks, wanted

GOLDEN = """\
4 ranks · 3 live · 1 lost · by rank · all at iteration 48,210
L lost: rank 2 (74 s)
No rank is more than 1 % over the mean of 119.91 ms
rank         state         age behind Iter Wall slowest phase, ms
   0         ● live      0.1 s      0    119.85 Learning     80.0
 └ collector ● live      0.1 s                  Action Wait  71.1
   1         ● live      0.1 s      0    119.98 Learning     80.2
 └ collector ● live      0.1 s                  Action Wait  70.5
   2         L lost       74 s    617    120.00 Learning     80.2
 └ collector L lost       74 s                  Action Wait  71.0
   3         ● live      0.1 s      0    119.89 Learning     80.1
 └ collector ● live      0.1 s                  Action Wait  70.9

Over the ranks at work: 3 of 4 ────────────────────────────────────────────
Iter Wall, ms       min 119.85 by rank 0  mean 119.91  max 119.98 by rank 1
Steps/s             min  1,067 by rank 1  mean  1,067  max  1,068 by rank 0
Train/mean_reward   min  403.6 by rank 0  mean  410.9  max  415.5 by rank 3
Loss/critic         min  1.237 by rank 3  mean  1.246  max  1.255 by rank 1
Loss/actor          min -31.23 by rank 0  mean -31.19  max -31.16 by rank 1
Collector Wait, ms  min  24.20 by rank 0  mean  24.24  max  24.31 by rank 1
Inference, ms             9.20 by all 3"""


def test_four_ranks_one_lost_as_they_were_looked_at() -> None:
    assert text(table_of(run_of(4, lost=2)), columns=80, rows=24) == GOLDEN


def test_of_a_single_rank_no_line_says_whose_it_is_and_numbers_end_below_each_other() -> None:
    for collectors in (0, 1):
        for size in ((70, 24), (80, 24), (100, 30), (160, 48)):
            lines = screen(table_of(run_of(1, collectors=collectors)), USUAL, *size)
            at = next(n for n, one in enumerate(lines) if one.startswith("Values ─"))
            values = lines[at + 1 :]
            assert len(values) > 5
            assert "by rank" not in "\n".join(lines[at:])
            points = {one.rindex(".") for one in values if "Steps/s" not in one}
            assert len(points) == 1
            assert any("-31" in one for one in values)


def test_how_far_ranks_are_that_do_not_wait_is_said_of_the_first_and_the_last() -> None:
    answer = run_of(3, collectors=0)
    first, second, third = answer.rows
    apart = (structs.replace(first, iteration=72), structs.replace(second, iteration=68))
    lost = structs.replace(third, iteration=3, state="lost")
    table = table_of(structs.replace(answer, rows=(*apart, lost)))
    assert screen(table)[0].endswith(" · iterations 68 to 72")
    assert screen(table_of(answer))[0].endswith(" · all at iteration 48,210")
    assert "iteration" not in screen(table_of(run_of(1)))[0]


def test_a_lost_rank_is_red_and_has_a_letter_and_is_no_candidate() -> None:
    key = SourceKey(1, LEARNER)
    table = table_of(reply(learners(0.1, 0.5, 0.1), states={key: "lost"}, ages_s={key: 74.0}))
    assert table.slowest is None
    assert "L lost: rank 1 (74 s)" in text(table)
    (line,) = [one for one in ranks(table, PICTURE, RanksState(), 120, 40).lines
               if plain(one).startswith("   1")]  # fmt: skip
    state = next(part for part in line if "lost" in part.text)
    assert (state.text.strip(), state.style) == ("L lost", "bad")
    assert "100.00 by all 2" in text(table)


@pytest.mark.parametrize(
    ("state", "shown"),
    [("silent", "s silent"), ("finished", "f finished"), ("lost", "L lost"), ("live", "● live"),
     ("odd\x1b", "? odd\\x1b")],
)  # fmt: skip
def test_every_state_has_a_word_and_a_letter(state: str, shown: str) -> None:
    table = table_of(reply(learners(0.1, 0.1), states={SourceKey(0, LEARNER): state}))
    assert shown in text(table)


def test_iterations_behind_the_newest_learner() -> None:
    key = SourceKey(0, LEARNER)
    lines = screen(table_of(reply(learners(0.1, 0.1), behind={key: 1617})))
    (line,) = [line for line in lines if line.startswith("   0 ")]
    assert line.split()[:7] == ["0", "●", "live", "0.1", "s", "46,593", "1,617"]


def test_a_value_of_an_earlier_iteration_stands_in_brackets() -> None:
    chance_values = {WALL: 0.1, "Loss/critic": 1.5, "Loss/actor": math.nan}
    made = reply({SourceKey(0, LEARNER): chance_values, SourceKey(1, LEARNER): chance_values})
    old = made.rows[0]
    aged = row(old.key, chance_values, made.tags, iteration=9, ages={"Loss/critic": 60.0})
    table = table_of(structs.replace(made, rows=(aged, made.rows[1])))
    lines = screen(table, RanksState(tags=("Loss/critic", "Loss/actor")))
    zero, one = (next(x for x in lines if x.startswith(f"   {rank} ")) for rank in (0, 1))
    assert "(1.500)" in zero
    assert "1.500" in one
    assert "(1.500)" not in one
    assert "NaN" in zero


def test_what_is_not_finite_is_counted_beside_the_mean() -> None:
    values = learners(0.1, 0.1, 0.1, Loss__critic=[math.nan, 2.0, math.inf])
    lines = screen(table_of(reply(values)), RanksState(tags=("Loss/critic",)))
    (spread,) = [line for line in lines if line.startswith("Loss/critic")]
    assert "2 by rank 1" in " ".join(spread.split())
    assert "2 NaN or infinite" in spread
    assert sum("NaN" in line or " inf" in line for line in lines[3:7]) >= 2


def test_collectors_stand_below_their_learner_and_can_be_put_away() -> None:
    lost = SourceKey(1, COLLECTOR, 1)
    made = run_of(2, collectors=2)
    rows = tuple(structs.replace(r, state="lost") if r.key == lost else r for r in made.rows)
    table = table_of(structs.replace(made, rows=rows))
    names = [line[:14].rstrip() for line in screen(table)[5:11]]
    assert names == ["   0", " └ collector", " └ collector.1", "   1", " └ collector",
                     " └ collector.1"]  # fmt: skip
    names = [line[:14].rstrip() for line in screen(table, RanksState(collectors=False))[5:8]]
    assert names == ["   0", "   1", " └ collector.1"]
    assert "L lost: rank 1 collector.1" in text(table)


def test_whoever_holds_an_end_is_named_as_shortly_as_that_is_clear() -> None:
    tag = "Perf/collector_env_step_ms"
    sources = {SourceKey(rank, COLLECTOR): {tag: 3.0 + rank} for rank in range(3)}
    assert "min 3 by rank 0" in text(table_of(reply(sources)), RanksState(tags=(tag,)))
    sources[SourceKey(2, COLLECTOR, 1)] = {tag: 1.0}
    shown = text(table_of(reply(sources)), RanksState(tags=(tag,)))
    assert "min 1 by rank 2 collector.1" in shown
    assert shown.endswith("max 5 by rank 2 collector")
    assert shown.startswith("3 ranks")


def test_a_collector_without_its_learner_says_the_rank() -> None:
    table = table_of(reply({SourceKey(3, COLLECTOR): {"Perf/collector_env_step_ms": 3.0}}))
    assert "   3 collector ● live" in text(table)


def test_orders() -> None:
    oldest, slowest = SourceKey(2, LEARNER), SourceKey(1, LEARNER)
    table = table_of(reply(learners(0.1, 0.2, 0.15), ages_s={oldest: 3.0}))

    def first(state: RanksState) -> str:
        at = next(n for n, line in enumerate(screen(table, state)) if line.startswith("rank "))
        return screen(table, state)[at + 1].split()[0]

    assert [first(RanksState(order=order)) for order in ORDERS] == [
        "0", str(slowest.rank), str(oldest.rank),
    ]  # fmt: skip


def test_an_older_aggregator_is_said_and_the_states_are_shown_all_the_same() -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), NoAnswer("this aggregator does not tell it")), "sac")
    sources = (
        SourceStatus(SourceKey(0, LEARNER), 1, "h", "live", 0.1, 0.2, 5, 0),
        SourceStatus(SourceKey(1, LEARNER), 2, "h", "gone", 70.0, 80.0, 5, 0),
    )
    shown = text(store.table((), sources))
    assert "! No values of single ranks: this aggregator does not tell it" in shown
    assert "● live" in shown
    assert "L gone" in shown
    assert "80 s" in shown


def test_while_there_is_no_answer_yet_it_says_so() -> None:
    assert "Asking the aggregator" in text(RankStore().table())


def test_what_was_known_stays_when_the_aggregator_stops_answering() -> None:
    store = RankStore()
    store.add(Answer(RanksQuestion(), run_of(2)), "sac")
    store.add(Answer(RanksQuestion(), NoAnswer("the aggregator has not answered for 6 s")), "sac")
    shown = text(store.table())
    said = "! values as of iteration 48,210: the aggregator has not answered for 6 s"
    assert said in shown
    assert "Learning" in shown
    gone = SourceStatus(SourceKey(0, LEARNER), 1, "h", "gone", 9.0, 9.0, 5, 0)
    assert "L gone" in text(store.table((), (gone,)))
    picture = replace(PICTURE, silent_s=30.0)
    lines = ranks(store.table(), picture, RanksState(), 120, 40).lines
    assert "as of 30 s ago" in plain(lines[0])


def test_what_the_answer_had_no_room_for_is_said() -> None:
    shown = text(table_of(reply(learners(0.1), left_out=(11_245, 3), expected=9)))
    assert "! 11,245 tags left out" in shown
    assert "! 3 rows left out" in shown
    assert "9 ranks" in shown
    assert "8 not heard yet" in shown


def test_names_that_users_gave_are_literal() -> None:
    role, tag = "[bold]\x1b[31mrole", "损失[/]\x1b]0;x"
    table = table_of(reply({SourceKey(0, LEARNER): {tag: 1.0}, SourceKey(0, role): {tag: 2.0}}))
    shown = text(table, RanksState(tags=(tag,)))
    assert "\x1b" not in shown
    assert "[bold]\\x1b[31m" in shown
    assert "损失[/]" in shown


def test_keys() -> None:
    table = table_of(run_of(64))
    at = context(table, PICTURE, RanksState(), 80, 24)
    state = press(RanksState(), "o", at)
    assert state.order == "slowest"
    state = press(press(press(state, "j", at), "down", at), "pagedown", at)
    assert state.first == 2 + at.space - 1
    assert press(state, "escape", at).first == 0
    end = press(state, "end", at)
    assert end.first == at.lines - at.space
    assert press(end, "down", at).first == end.first
    assert press(press(end, "home", at), "up", at).first == 0
    assert press(state, "c", at).collectors is False
    assert press(state, "x", at) is state
    assert all(key.short and key.long for key in KEYS)


def test_tags_are_chosen_with_the_filter() -> None:
    table = table_of(run_of(4))
    state = RanksState()
    for key in ["slash", *"critic", "enter"]:
        state = press(state, key, context(table, PICTURE, state, 80, 24))
        assert screen(table, state, 80, 24)
    assert state.tags == ("Loss/critic",)
    assert wanted(PICTURE, state).tags[-1] == "Loss/critic"
    lines = screen(table, state, 80, 24)
    assert any("critic" in line for line in lines if line.startswith("rank "))
    opened = press(state, "slash", context(table, PICTURE, state, 80, 24))
    assert "Enter shows their values" in text(
        table, press(opened, "down", context(table, PICTURE, opened, 80, 24))
    )
    assert press(state, "delete", context(table, PICTURE, state, 80, 24)).tags == ()
