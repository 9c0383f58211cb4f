"""The ranks' screen: every rank's line, who is slowest, who is lost, least and most, every size."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from rank_answers import reply, row, run_of, table_of

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.control import SourceStatus
from unilab_schema.identity import COLLECTOR, LEARNER, RunInfo, SourceKey
from unilab_sidecar.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.picture import Picture
from unilab_sidecar.questions import Answer, RanksQuestion
from unilab_sidecar.rank_state import KEYS, ORDERS, RanksState, press
from unilab_sidecar.rank_table import GRADIENT_SYNC_MS, RankStore, RankTable
from unilab_sidecar.text import line_width, plain
from unilab_sidecar.views.ranks import context, ranks, wanted

PICTURE = Picture("training", RunInfo("sac", "cart_pole", world_size=4), connected=True)
USUAL = RanksState()
WALL = "Perf/iteration_time"


def learners(*walls_s: float, **more: list[float]) -> dict[SourceKey, dict[str, float]]:
    """A learner per wall, with further tags."""
    tags = {name.replace("__", "/"): values for name, values in more.items()}
    return {
        SourceKey(rank, LEARNER): {WALL: wall_s} | {tag: v[rank] for tag, v in tags.items()}
        for rank, wall_s in enumerate(walls_s)
    }


def screen(
    table: RankTable, state: RanksState = USUAL, columns: int = 120, rows: int = 40
) -> list[str]:
    return [plain(one).rstrip() for one in ranks(table, PICTURE, state, columns, rows).lines]


def text(table: RankTable, state: RanksState = USUAL, columns: int = 120, rows: int = 40) -> str:
    return "\n".join(screen(table, state, columns, rows))


GOLDEN = """\
4 ranks · 3 live · 1 lost · iteration 48,210 · by rank
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

Over the ranks ────────────────────────────────────────────────────────────
Iter Wall, ms       min 119.85 by rank 0  mean 119.91  max 119.98 by rank 1
Steps/s             min 1,067 by rank 1   mean 1,067   max 1,068 by rank 0
Train/mean_reward   min 403.6 by rank 0   mean 410.9   max 415.5 by rank 3
Loss/critic         min 1.237 by rank 3   mean 1.246   max 1.255 by rank 1
Loss/actor          min -31.23 by rank 0  mean -31.19  max -31.16 by rank 1
Collector Wait, ms  min 24.20 by rank 0   mean 24.24   max 24.31 by rank 1
Inference, ms       9.20 by all 3"""


def test_four_ranks_one_lost_as_they_were_looked_at() -> None:
    assert text(table_of(run_of(4, lost=2)), columns=80, rows=24) == GOLDEN


def test_the_slowest_is_marked_with_how_much_over_the_mean() -> None:
    table = table_of(reply(learners(0.1, 0.1, 0.13, 0.1)))
    lines = screen(table)
    mean_ms = (0.1 * 3 + 0.13) / 4 * 1000
    over = 130 / mean_ms - 1
    assert (
        f"◀ slowest: rank 2, {100 * over:.1f} % over the mean (130.00 of {mean_ms:.2f} ms)" in lines
    )
    marked = [line for line in lines if "◀ slowest +" in line]
    assert len(marked) == 1
    assert marked[0].split()[0] == "2"
    assert marked[0].endswith(f"◀ slowest +{100 * over:.1f} %")
    assert "Iter Wall, ms" in text(table)
    assert "min 100.00 by rank 0" in text(table)
    assert "max 130.00 by rank 2" in text(table)


@pytest.mark.parametrize("walls", [(0.1,), (0.1, 0.1), (0.1, 0.1005)])
def test_nobody_is_slowest_alone_or_among_equals(walls: tuple[float, ...]) -> None:
    assert "◀ slowest" not in text(table_of(reply(learners(*walls))))


def test_whoever_keeps_the_others_waiting_is_slowest_though_all_walls_are_equal() -> None:
    values = learners(0.1, 0.1, 0.1, **{GRADIENT_SYNC_MS.replace("/", "__"): [30.0, 4.0, 31.0]})
    table = table_of(reply(values))
    assert table.slowest == SourceKey(1, LEARNER)
    assert "◀ slowest: rank 1, works 22.6 % longer than the mean (96.00 of 78.33 ms)" in text(table)
    assert "DP Sync, ms    min 4.00 by rank 1  mean 21.67  max 31.00 by rank 2" in text(table)
    del values[SourceKey(0, LEARNER)][GRADIENT_SYNC_MS]
    assert table_of(reply(values)).slowest is None


def test_the_mark_follows_the_mean_of_the_last_seconds() -> None:
    calm = [reply(learners(0.1, 0.1, 0.12), mono_ns=at * 500_000_000) for at in range(1, 4)]
    jump = reply(learners(0.1, 0.125, 0.12), mono_ns=4 * 500_000_000)
    assert table_of(*calm, jump).slowest == SourceKey(2, LEARNER)
    later = [reply(learners(0.1, 0.125, 0.12), mono_ns=at * 500_000_000) for at in range(9, 12)]
    assert table_of(*calm, jump, *later).slowest == SourceKey(1, LEARNER)


def test_a_new_attempt_begins_without_the_pace_of_the_old_one() -> None:
    old = reply(learners(0.1, 0.1, 0.3))
    new = reply(learners(0.1, 0.12, 0.1), mono_ns=1_500_000_000, attempt=2)
    assert table_of(old, new).slowest == SourceKey(1, LEARNER)


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
    assert "2 by rank 1" in spread
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
    assert "! the aggregator has not answered for 6 s" in shown
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


def test_512_ranks_scroll_to_the_last_one() -> None:
    table = table_of(run_of(512, lost=300))
    state = RanksState()
    shown: list[str] = []
    for _ in range(200):
        at = context(table, PICTURE, state, 80, 24)
        lines = screen(table, state, 80, 24)
        first = next(n for n, line in enumerate(lines) if line.startswith("rank ")) + 1
        shown += [line.split()[0] for line in lines[first : first + at.space] if line[3:4] != " "]
        following = press(state, "pagedown", at)
        if following is state or following.first == state.first:
            break
        state = following
    assert sorted(set(shown) - {"collector", "└"}, key=int) == [str(rank) for rank in range(512)]
    assert ranks(table, PICTURE, state, 80, 24).title.endswith("of 1,024")
    assert "L lost: rank 300 (74 s)" in text(table, state, 80, 24)


def test_there_is_never_less_than_fits_however_far_it_was_scrolled() -> None:
    table = table_of(run_of(20, collectors=0))
    shown = ranks(table, PICTURE, RanksState(first=500), 80, 24)
    assert shown.title == "Ranks · rows 8 to 20 of 20"
    assert any(plain(line).startswith("  19 ") for line in shown.lines)


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


def test_what_is_asked_for_is_bounded_and_fits_the_algorithm() -> None:
    for algorithm in ("sac", "appo", "ppo", "mine"):
        picture = replace(PICTURE, run=RunInfo(algorithm))
        tags = wanted(picture, RanksState()).tags
        assert len(tags) == len(set(tags)) < 40
        assert WALL in tags


def test_a_run_of_an_unknown_algorithm_may_have_any_phase() -> None:
    table = table_of(run_of(2), algorithm="mine")
    assert text(table).count("Learning") == 3
    assert text(table).count("Action Wait ") == 2


def test_without_a_measured_wall_the_phases_add_up() -> None:
    values = {"Perf/collection_time": 0.3, "Perf/learning_time": 0.1}
    table = table_of(reply({SourceKey(0, LEARNER): values}), algorithm="ppo")
    (line,) = [line for line in screen(table) if line.startswith("   0 ")]
    assert line.split()[7:] == ["400.00", "ms", "Collect", "300", "-"]


SIZES = [(1, 1), (2, 3), (7, 2), (20, 5), (40, 10), (61, 12), (70, 24), (80, 24), (95, 20),
         (96, 30), (100, 30), (119, 31), (120, 40), (160, 48), (300, 100)]  # fmt: skip


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_size(columns: int, rows: int) -> None:
    tables = [
        RankTable(),
        table_of(run_of(1, collectors=0)),
        table_of(run_of(4, lost=2, silent=1)),
        table_of(run_of(64, lost=7, silent=9)),
        table_of(reply(learners(math.nan, math.inf, 1e300))),
        RankStore().table(),
    ]
    states = [RanksState(), RanksState("slowest", ("Loss/critic", "Nobody/has_it"), 500, False)]
    for table in tables:
        for state in [*states, press(states[0], "slash", context(table, PICTURE, states[0], 9, 9))]:
            shown = ranks(table, PICTURE, state, columns, rows)
            assert len(shown.lines) <= max(rows - FRAME_ROWS, 1)
            assert all(line_width(x) <= max(columns - FRAME_CELLS, 1) for x in shown.lines)
            assert len(shown.title) <= max(columns - FRAME_CELLS - 2, 0)
            context(table, PICTURE, state, columns, rows)


@pytest.mark.parametrize("columns", range(80, 301, 20))
def test_nothing_essential_is_cut_from_80_columns_on(columns: int) -> None:
    shown = text(table_of(run_of(64, lost=3)), columns=columns, rows=24)
    assert "…" not in shown
    for word in (
        "rank",
        "state",
        "age",
        "behind",
        "Iter Wall",
        "◀ slowest",
        "L lost",
        "slowest phase",
    ):
        assert word in shown
    assert "min 119.38 by rank 47" in shown
    assert "by rank 5" in shown
