"""The ranks' numbers are means over the same answers of the last seconds, and the screen says so."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from rank_answers import reply, run_of, table_of
from ranks_screen import PICTURE, USUAL, WALL, learners, screen, text
from shown_screens import sample_shown, seen

from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.rank_values import RankSpread
from unilab_schema.requests import RankValues
from unilab_schema.timing import learner_timeline
from unilab_sidecar.picture import Picture
from unilab_sidecar.rank_state import RanksState
from unilab_sidecar.rank_table import RankStore, RankTable
from unilab_sidecar.text import plain
from unilab_sidecar.views.ranks import ranks, window

LEARNING = "Perf/learning_time"
LOSS = "Loss/critic"
HALF_NS = 500_000_000
ONLY = SourceKey(0, LEARNER)


def at_s(seconds: float, logged_s: float, **values: float) -> RankValues:
    """A single rank's answer at a time, with what it logged at another."""
    told = {ONLY: {name.replace("__", "/"): value for name, value in values.items()}}
    return reply(told, ages_s={ONLY: seconds - logged_s}, mono_ns=round(seconds * 1e9))


def loss_of(table: RankTable) -> float:
    (line,) = table.lines
    return line.values[LOSS].value


def alternating(place: int) -> RankValues:
    """Rank 1 learns for 20 and for 60 ms by turns, rank 0 for 40."""
    learning_s = 0.020 if place % 2 else 0.060
    made = learners(0.050, learning_s + 0.010, Perf__learning_time=[0.040, learning_s])
    return reply(made, mono_ns=(10 + place) * HALF_NS)


def test_walls_phases_and_spreads_are_means_over_the_same_answers() -> None:
    told = [alternating(place) for place in range(40)]
    for count in range(20, 40):
        table = table_of(*told[:count])
        one = table.lines[1]
        assert one.phase is not None
        assert one.wall_ms is not None
        assert one.wall_ms == pytest.approx(one.phase.ms + 10.0)
        assert one.wall_ms == pytest.approx(50.0, abs=2.0)
        assert one.work_ms == one.wall_ms
        spread = table.spreads[LEARNING]
        assert spread.highest is not None
        assert spread.maximum == max(line.values[LEARNING].value for line in table.lines)
        assert table.spreads[WALL].maximum == max(line.values[WALL].value for line in table.lines)
    assert window(table_of(*told)) == "Avg 10s (n=20)"


def test_a_phase_is_never_longer_than_its_wall_on_the_screen() -> None:
    lines = screen(table_of(*(alternating(place) for place in range(21))))
    (line,) = [one for one in lines if one.startswith("   1 ")]
    wall, learning = (float(line.split()[place]) for place in (7, 10))
    assert (wall, learning) == (50.0, 40.0)
    assert any("Learning, ms" in one and "40.00 by all 2" in one for one in lines)


def test_what_is_told_twice_counts_once() -> None:
    told = [at_s(100 + place / 2, 100.0, Loss__critic=1.0) for place in range(8)]
    told += [at_s(104.0, 103.9, Loss__critic=4.0)]
    table = table_of(*told)
    assert loss_of(table) == 2.5
    assert window(table) == "Avg 10s (n=2)"


def test_slow_iterations_count_for_no_more_than_they_are_among_all() -> None:
    def block(place: int) -> list[RankValues]:
        # In a second of the clock one slow iteration, or three fast ones.
        slow = at_s(100.0 + place, 100.0 + place, Loss__critic=60.0)
        fast = at_s(101.0 + place, 101.0 + place, Loss__critic=20.0)
        (one,), (two,) = slow.rows, fast.rows
        made = 4 * place // 2
        return [
            structs.replace(slow, rows=(structs.replace(one, cursor=made + 1),)),
            structs.replace(fast, rows=(structs.replace(two, cursor=made + 4),)),
        ]

    told = [answer for place in (0, 2, 4) for answer in block(place)]
    # The first one stands for as many as the second.
    assert loss_of(table_of(*told)) == pytest.approx((3 * 60 + 3 * 3 * 20 + 2 * 60) / 14)


def test_another_process_in_a_place_begins_anew() -> None:
    first, second = at_s(100.0, 100.0, Loss__critic=1.0), at_s(101.0, 101.0, Loss__critic=3.0)
    (row,) = second.rows
    second = structs.replace(second, rows=(structs.replace(row, cursor=2),))
    assert loss_of(table_of(first, second)) == 2.0


def test_the_same_number_logged_anew_counts_again() -> None:
    told = [at_s(100 + place, 100 + place, Loss__critic=1.0) for place in range(3)]
    assert loss_of(table_of(*told, at_s(103.0, 103.0, Loss__critic=5.0))) == 2.0


def test_what_nobody_has_logged_lately_stands_alone_and_is_called_the_newest() -> None:
    told = [at_s(100 + place, 100 + place, Loss__critic=float(place)) for place in range(4)]
    late = at_s(114.0, 103.0, Loss__critic=3.0)
    table = table_of(*told, late)
    assert loss_of(table) == 3.0
    assert window(table) == "newest values"
    assert window(RankStore().table()) == ""


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_number_is_not_hidden_in_a_mean(odd: float) -> None:
    told = [at_s(100 + place, 100 + place, Loss__critic=1.0) for place in range(3)]
    table = table_of(at_s(99.0, 99.0, Loss__critic=odd), *told)
    assert not math.isfinite(loss_of(table))
    assert table.spreads[LOSS] == RankSpread(0, 1)
    later = [at_s(110 + place, 110 + place, Loss__critic=1.0) for place in range(3)]
    assert loss_of(table_of(at_s(99.0, 99.0, Loss__critic=odd), *later)) == 1.0


def test_equal_values_have_themselves_as_their_mean_however_large_they_are() -> None:
    for value in (0.1, 1.7e308, -3e-320):
        told = [at_s(100 + place, 100 + place, Loss__critic=value) for place in range(7)]
        assert loss_of(table_of(*told)) == value


def test_tags_and_ranks_that_come_and_go_keep_what_is_known_of_the_others() -> None:
    one, two = SourceKey(0, LEARNER), SourceKey(1, LEARNER)
    table = table_of(
        reply({two: {LOSS: 1.0, WALL: 0.1}}, mono_ns=1 * 10**9),
        reply({one: {WALL: 0.3}, two: {WALL: 0.3}}, mono_ns=2 * 10**9),
        reply({one: {LOSS: 8.0, WALL: 0.3}, two: {LOSS: 3.0, WALL: 0.5}}, mono_ns=3 * 10**9),
    )
    values = [{tag: told.value for tag, told in line.values.items()} for line in table.lines]
    assert values[0] == {LOSS: 8.0, WALL: pytest.approx(0.3)}
    assert values[1] == {LOSS: 2.0, WALL: pytest.approx(0.3)}


def test_an_aggregator_with_an_earlier_clock_begins_anew() -> None:
    told = at_s(100.0, 100.0, Loss__critic=9.0), at_s(5.0, 5.0, Loss__critic=1.0)
    assert loss_of(table_of(*told)) == 1.0


def test_spreads_count_whom_the_aggregator_counts() -> None:
    for answer in (run_of(4, lost=2), run_of(4, silent=1), run_of(1, lost=0)):
        made = table_of(answer).spreads
        for tag, told in zip(answer.tags, answer.spreads, strict=True):
            assert made[tag] == structs.replace(told, mean=made[tag].mean)
            assert made[tag].mean == pytest.approx(told.mean)
    finished = structs.replace(run_of(2, collectors=0).rows[1], state="finished")
    answer = run_of(2, collectors=0)
    answer = structs.replace(answer, rows=(answer.rows[0], finished))
    assert {one.count for one in table_of(answer).spreads.values()} == {1}
    rows = tuple(structs.replace(one, state="finished") for one in answer.rows)
    spreads = table_of(structs.replace(answer, rows=rows)).spreads
    assert {one.count for one in spreads.values()} == {2}


def test_where_not_every_rank_has_a_line_the_newest_values_are_compared_and_called_so() -> None:
    first, second = alternating(0), alternating(1)
    part = structs.replace(second, rows=second.rows[:1], left_out_rows=1)
    shown = text(table_of(first, part))
    assert "Over the ranks" not in text(table_of(first, second)).replace("Over the ranks ─", "")
    assert ", newest values ─" in shown
    assert "min 30.00 by rank 1" in shown
    assert "max 50.00 by rank 0" in shown


def test_phases_that_never_happened_have_no_row_as_in_the_overview() -> None:
    of_one = {WALL: 0.1, LEARNING: 0.09, "Perf/learner_inference_ms": 0.0}
    values = {SourceKey(rank, LEARNER): of_one for rank in range(2)}
    table = table_of(reply(values))

    def shown(picture: Picture, state: RanksState = USUAL) -> str:
        return "\n".join(plain(line) for line in ranks(table, picture, state, 120, 40).lines)

    assert "Learning, ms" in shown(PICTURE)
    assert "Inference" not in shown(PICTURE)
    # Chosen, or known to happen now and then, it is there.
    assert "Perf/learner_inference_ms" in shown(PICTURE, RanksState(tags=(*of_one,)))
    happens = replace(PICTURE, learner=learner_timeline(of_one, "sac"))
    assert "Inference, ms" in shown(happens)


def test_the_title_over_the_ranks_says_over_what_they_are_means() -> None:
    well = sample_shown()
    told = replace(well, ranks=table_of(*(alternating(place) for place in range(4))))
    assert "Avg 10s (n=4)" in seen(told, "3", size=(160, 40)).splitlines()[0]
    assert "Avg" not in seen(well, "3", size=(160, 40)).splitlines()[0]
    for key in ("1", "2", "4", "5"):
        assert "Avg 2s (n=" in seen(told, key, size=(160, 40)).splitlines()[0]
