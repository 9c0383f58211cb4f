"""The ranks' screen: who is slowest, and by what."""

from __future__ import annotations

import re

import pytest
from rank_answers import reply, run_of, table_of
from ranks_screen import learners, screen, text

from unilab_schema.identity import LEARNER, SourceKey
from unilab_sidecar.ranks.table import GRADIENT_SYNC_MS


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
    assert "◀ slowest: rank 1, Work 22.6 % over the mean (96.00 of 78.33 ms)" in text(table)
    assert re.search(r"Iter Wall +Work", text(table))
    # Every row has the figure that the mark is about.
    for work in ("70.00", "96.00", "69.00"):
        assert re.search(rf"100.00( ms)? +{work}", text(table))
    assert "DP Sync, ms    min   4.00 by rank 1  mean 21.67  max 31.00 by rank 2" in text(table)
    del values[SourceKey(0, LEARNER)][GRADIENT_SYNC_MS]
    assert table_of(reply(values)).slowest is None


def test_the_mark_is_of_the_newest_answer() -> None:
    before = reply(learners(0.1, 0.1, 0.12))
    after = reply(learners(0.1, 0.125, 0.12), mono_ns=1_500_000_000)
    assert table_of(before).slowest == SourceKey(2, LEARNER)
    assert table_of(before, after).slowest == SourceKey(1, LEARNER)


def test_a_new_attempt_begins_without_the_pace_of_the_old_one() -> None:
    old = reply(learners(0.1, 0.1, 0.3))
    new = reply(learners(0.1, 0.12, 0.1), mono_ns=1_500_000_000, attempt=2)
    assert table_of(old, new).slowest == SourceKey(1, LEARNER)


def test_a_run_of_an_unknown_algorithm_may_have_any_phase() -> None:
    table = table_of(run_of(2), algorithm="mine")
    assert text(table).count("Learning") == 3
    assert text(table).count("Action Wait ") == 2


def test_without_a_measured_wall_the_phases_add_up() -> None:
    values = {"Perf/collection_time": 0.3, "Perf/learning_time": 0.1}
    table = table_of(reply({SourceKey(0, LEARNER): values}), algorithm="ppo")
    (line,) = [line for line in screen(table) if line.startswith("   0 ")]
    assert line.split()[7:] == ["400.00", "ms", "Collect", "300.0", "-"]
