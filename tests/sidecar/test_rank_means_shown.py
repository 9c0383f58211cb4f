"""The ranks' numbers are the aggregator's two-second means, all of the same answer, and the screen says
so."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from rank_answers import SAMPLES, reply, run_of, table_of
from ranks_screen import PICTURE, USUAL, WALL, screen, text
from shown_screens import sample_shown, seen

from unilab_schema.identity import COLLECTOR, LEARNER, SourceKey
from unilab_schema.timing import learner_timeline
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.ranks.table import RankStore, asked_tags
from unilab_sidecar.views.ranks import ranks, window

LEARNING = "Perf/learning_time"
PACKING = "Perf/collector_pack_ms"


def test_the_title_over_the_ranks_says_over_how_many_frames_the_means_are() -> None:
    well = sample_shown()
    told = replace(well, ranks=table_of(run_of(2)))
    assert f"Avg 2s (n={SAMPLES})" in seen(told, "3", size=(160, 40)).splitlines()[0]
    assert "Avg" not in seen(well, "3", size=(160, 40)).splitlines()[0]


def test_an_aggregator_that_makes_no_means_has_newest_values_which_are_called_so() -> None:
    rows = tuple(structs.replace(row, samples=0) for row in run_of(2).rows)
    assert window(table_of(structs.replace(run_of(2), rows=rows))) == "newest values"
    assert window(RankStore().table()) == ""


def test_of_ranks_with_windows_of_other_lengths_the_title_has_the_most() -> None:
    first, *rest = run_of(2).rows
    rows = (structs.replace(first, samples=40), *rest)
    assert window(table_of(structs.replace(run_of(2), rows=rows))) == "Avg 2s (n=40)"


def test_the_spreads_are_the_aggregators_with_ranks_that_have_no_line() -> None:
    answer = run_of(3, collectors=0)
    part = structs.replace(answer, rows=answer.rows[:1], left_out_rows=2)
    assert table_of(part).spreads == dict(zip(answer.tags, answer.spreads, strict=True))
    wall = dict(zip(answer.tags, answer.spreads, strict=True))[WALL]
    assert wall.maximum is not None
    (line,) = [one for one in screen(table_of(part)) if one.startswith("Iter Wall, ms")]
    assert f"{wall.maximum * 1e3:.2f}" in line


def test_own_phases_of_a_collector_are_rows_and_may_be_its_slowest() -> None:
    of_collector = {"Perf/collector_env_step_ms": 3.0, PACKING: 9.0}
    values = {
        SourceKey(0, LEARNER): {WALL: 0.1, LEARNING: 0.09},
        SourceKey(0, COLLECTOR): of_collector,
    }
    table = table_of(reply(values))
    (collector,) = [line for line in table.lines if not line.is_learner]
    assert collector.phase is not None
    assert (collector.phase.label, collector.phase.ms) == ("Pack", 9.0)
    assert "Pack, ms" in text(table)
    assert PACKING in asked_tags("sac", (), (PACKING,))
    # A part of a phase is in that one already.
    part = "Perf/collector_env_step_reset_ms"
    assert part not in asked_tags("sac", (), (part,))


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
