"""The values of single ranks are means over the last two seconds of each rank's own frames."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources_on_paper import MS, PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.announcing.rank_means import MeantValues, meant_values
from unilab_metrics.aggregate.folding import recent_frames
from unilab_metrics.aggregate.folding.recent_frames import ASKED_NS, WINDOW_NS


def asked(paper: PaperRun) -> PaperRun:
    paper.state.recent_frames.asked(0)
    return paper


def meant(paper: PaperRun, *tags: str) -> MeantValues:
    return meant_values(paper.state, paper.state.data.sources, tags)


def told(paper: PaperRun, tag: str = "a", row: int = 0) -> tuple[float, int]:
    """A mean, and over how many frames the most of the source's means are."""
    found = meant(paper, tag)
    return float(found.values[row, 0]), int(found.samples[row])


def one_rank() -> tuple[PaperRun, PaperSource]:
    paper = asked(PaperRun())
    return paper, paper.join(0)


def test_iterations_of_uneven_length_count_once_each() -> None:
    paper, zero = one_rank()
    t = 0
    for number in range(400):
        wall_ms = 20.0 if number % 2 else 60.0
        t += round(wall_ms)
        paper.fold(zero.iteration(number, {"a": wall_ms}, t=t))
        if number > 100:
            value, samples = told(paper)
            # 2,000 ms are 25 pairs of them, with one more of either kind where both ends are in.
            assert value == pytest.approx(40.0, abs=0.5)
            assert samples in (50, 51)


def test_who_takes_longer_than_the_window_shows_its_newest_iteration() -> None:
    paper, zero = one_rank()
    for number in range(4):
        paper.fold(zero.iteration(number, {"a": float(number)}, t=2001 * number))
        assert told(paper) == (float(number), 1)


def test_before_anybody_asks_nothing_is_kept_but_the_newest() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    for number in range(5):
        paper.fold(zero.iteration(number, {"a": float(number)}, t=number))
    assert told(paper) == (4.0, 1)
    assert not paper.state.recent_frames.of(0)
    asked(paper)
    paper.fold(zero.iteration(5, {"a": 8.0}, t=5))
    assert told(paper) == (8.0, 1)
    paper.fold(zero.iteration(6, {"a": 9.0}, t=6))
    assert told(paper) == (8.5, 2)


def test_who_asks_no_more_is_forgotten() -> None:
    paper, zero = one_rank()
    paper.fold(zero.iteration(0, {"a": 1.0}, t=1), zero.iteration(1, {"a": 3.0}, t=2))
    recent = paper.state.recent_frames
    recent.look(ASKED_NS)
    assert told(paper) == (2.0, 2)
    recent.look(3 * ASKED_NS)
    assert told(paper) == (3.0, 1)
    assert not recent.is_kept


def test_a_tag_of_several_key_sets_has_one_mean() -> None:
    paper, zero = one_rank()
    for number in range(6):
        values = {"a": float(number)} if number % 2 else {"a": float(number), "b": 1.0}
        paper.fold(zero.iteration(number, values, t=100 * number))
    assert told(paper) == (2.5, 6)
    assert told(paper, "b") == (1.0, 3)


def test_what_is_not_in_the_window_of_its_source_stands_alone() -> None:
    paper, zero = one_rank()
    paper.fold(zero.iteration(0, {"a": 1.0, "rare": 5.0}, t=0))
    paper.fold(zero.iteration(1, {"a": 2.0, "rare": 7.0}, t=100))
    for number in range(2, 6):
        paper.fold(zero.iteration(number, {"a": 3.0}, t=1000 * number))
        paper.state.recent_frames.look(number * 10**9)
    found = meant(paper, "a", "rare", "never")
    assert found.values[0, :2].tolist() == [3.0, 7.0]
    assert found.stamps[0, :2].tolist() == [5000 * MS, 100 * MS]
    assert math.isnan(found.values[0, 2])
    assert len(paper.state.recent_frames.of(0)) == 1


def test_each_source_has_a_window_of_its_own() -> None:
    paper, zero, one = two_learners()
    asked(paper)
    for number in range(3):
        paper.fold(zero.iteration(number, {"a": float(number)}, t=1000 * number))
    # As of a host that was started weeks ago, or of a rank that has stood still since.
    for number in range(3):
        paper.fold(one.iteration(number, {"a": 10.0 * number}, t=900_000 + 1000 * number))
    assert [told(paper, row=row) for row in (0, 1)] == [(1.0, 3), (10.0, 3)]


def test_partials_count_as_the_means_they_are_and_a_weight_of_zero_as_none() -> None:
    paper, zero = one_rank()
    paper.fold(zero.iteration(0, {"a": 6.0, "b": 0.0}, t=1, weights={"a": 3.0, "b": 0.0}))
    paper.fold(zero.iteration(1, {"a": 4.0, "b": 5.0}, t=2))
    found = meant(paper, "a", "b")
    assert found.values[0].tolist() == [3.0, 5.0]
    assert found.samples.tolist() == [2]


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_number_is_not_hidden_in_a_mean(odd: float) -> None:
    paper, zero = one_rank()
    paper.fold(zero.iteration(0, {"a": odd}, t=0))
    for number in range(1, 40):
        paper.fold(zero.iteration(number, {"a": 1.0}, t=100 * number))
        value, _ = told(paper)
        assert math.isfinite(value) == (number > 20)


def test_equal_values_have_themselves_as_their_mean_however_large_they_are() -> None:
    for value in (0.1, 1.7e308, -3e-320):
        paper, zero = one_rank()
        for number in range(7):
            paper.fold(zero.iteration(number, {"a": value}, t=number))
        assert told(paper) == (value, 7)


def test_frames_beyond_the_memory_make_the_window_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_frames, "MAX_BYTES", 100 * 308)
    paper, zero = one_rank()
    for number in range(1000):
        paper.fold(zero.iteration(number, {"a": float(number)}, t=number))
        frames = next(iter(paper.state.recent_frames.of(0).values()))
        assert 1 <= len(frames) <= 100
    value, samples = told(paper)
    assert 50 <= samples <= 100
    assert value == 999 - (samples - 1) / 2


def test_collectors_have_means_over_their_reports() -> None:
    paper, _ = one_rank()
    collector = paper.join(0, "collector")
    for number in range(5):
        paper.fold(collector.report({"a": float(number)}, t=number))
    assert told(paper, row=1) == (2.0, 5)


def _by_hand(frames: Sequence[tuple[int, dict[str, float]]], tag: str) -> float:
    """The rule, as it is written in the schema."""
    newest = frames[-1][0]
    inside = [v[tag] for t, v in frames if tag in v and t * MS >= newest * MS - WINDOW_NS]
    rest = [v[tag] for _, v in frames if tag in v]
    if not inside:
        return rest[-1] if rest else math.nan
    return math.fsum(value / len(inside) for value in inside)


FRAMES = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.dictionaries(st.sampled_from("abc"), st.floats(-1e6, 1e6), min_size=1),
    ),
    min_size=1,
    max_size=12,
)


@given(st.lists(FRAMES, min_size=1, max_size=3), st.integers(0, 12))
def test_every_mean_is_that_of_the_spooled_frames(
    steps: list[list[tuple[int, dict[str, float]]]], looks: int
) -> None:
    paper = asked(PaperRun())
    for rank, frames in enumerate(steps):
        source, t = paper.join(rank, learners=len(steps)), 0
        logged: list[tuple[int, dict[str, float]]] = []
        for number, (later, values) in enumerate(frames):
            t += later
            logged.append((t, values))
            paper.fold(source.iteration(number, values, t=t))
            if number == looks:
                paper.state.recent_frames.look((rank + 1) * 10**9)
        found = meant(paper, "a", "b", "c")
        by_hand = [_by_hand(logged, tag) for tag in "abc"]
        np.testing.assert_allclose(found.values[rank], by_hand, rtol=1e-9, atol=1e-9)
