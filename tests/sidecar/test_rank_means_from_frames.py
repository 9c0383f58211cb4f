"""What ranks log is on the screen as the aggregator's two-second means of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

import pytest
from rank_answers import EPOCH, table_of
from ranks_screen import WALL, screen
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.announcing.rank_table import Moment, Told, rank_values
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_schema.frames import IterationFrame, Layout
from unilab_schema.requests import Ranks
from unilab_sidecar.ranks.table import RankTable
from unilab_sidecar.views.ranks import window

BETWEEN_NS = 100_000
"""What passes from the end of an iteration to the begin of the next one."""


def logged(source: PaperSource, paper: PaperRun, walls_ms: Iterable[float]) -> int:
    """Iterations of these lengths, each logged at its end. When the last was, in ns."""
    now_ns = 0
    for number, wall_ms in enumerate(walls_ms):
        now_ns += round((0.0 if math.isnan(wall_ms) else wall_ms) * MS) + BETWEEN_NS
        packed = struct.pack("<d", wall_ms / 1e3)
        frame = IterationFrame(0, number, None, now_ns, now_ns, packed)
        paper.fold(source.batch(*[Layout(0, (WALL,))][number:], frame))
    return now_ns


def shown(paper: PaperRun, now_ns: int) -> RankTable:
    """The table of a viewer that asks at ``now_ns`` and has asked before."""
    newest = {source.identity.key: source for source in paper.state.data.sources}
    peer = Peer(heard_mono_ns=now_ns, frame_mono_ns=now_ns)
    told = [Told(s, source_status(s, peer, now_ns)) for _, s in sorted(newest.items())]
    moment = Moment(EPOCH, now_ns, "boot")
    return table_of(rank_values(paper.state, Ranks(1, (WALL,)), told, moment))


def asked() -> PaperRun:
    paper = PaperRun()
    paper.state.recent_frames.asked(0)
    return paper


def line_of(table: RankTable) -> str:
    return next(line for line in screen(table) if "● live" in line)


def test_uneven_iterations_have_their_mean() -> None:
    for count in range(200, 204):
        paper = asked()
        now_ns = logged(paper.join(0), paper, (60.0 if k % 2 else 20.0 for k in range(count)))
        table = shown(paper, now_ns)
        assert window(table) == "Avg 2s (n=50)"
        assert "40.00" in line_of(table).split()


def test_an_iteration_beyond_the_window_is_shown_alone() -> None:
    paper = asked()
    now_ns = logged(paper.join(0), paper, [2100.0, 2500.0])
    table = shown(paper, now_ns + 40_000 * MS)
    assert window(table) == "Avg 2s (n=1)"
    (line,) = table.lines
    assert (line.wall_ms, line.values[WALL].age_s) == (2500.0, 40.0)


def test_what_is_no_number_is_seen_until_it_has_left_the_window() -> None:
    walls = [100.0] * 30
    walls[10] = math.nan
    paper = asked()
    now_ns = logged(paper.join(0), paper, walls)
    assert "NaN ms" in line_of(shown(paper, now_ns))
    paper = asked()
    now_ns = logged(paper.join(0), paper, walls + [100.0] * 2)
    assert "100.00 ms" in line_of(shown(paper, now_ns))


def test_a_rank_that_was_started_again_begins_with_its_own_frames() -> None:
    paper = asked()
    before = paper.join(0)
    logged(before, paper, [100.0] * 10)
    paper.lose(before)
    again = paper.join(0)
    now_ns = logged(again, paper, [50.0, 70.0])
    table = shown(paper, now_ns)
    assert window(table) == "Avg 2s (n=2)"
    assert table.lines[0].wall_ms == pytest.approx(60.0)
