"""The table of ranks: every source's newest values, how old they are, who holds the extremes."""

from __future__ import annotations

import math
import struct

import pytest
from sources_on_paper import MS, PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.announcing.rank_table import Moment, Told, rank_values
from unilab_metrics.aggregate.folding import newest_frames
from unilab_metrics.aggregate.folding.entries import OpenAttempt
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_schema.codec import MAX_MESSAGE_BYTES, decode_reply, encode_message
from unilab_schema.control import Epoch
from unilab_schema.frames import SparseFrame, TagNames
from unilab_schema.identity import SourceKey
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import Ranks, RankValues

NOW_MS = 10_000
EPOCH = Epoch(b"j" * 16, 1)


def ask(paper: PaperRun, *tags: str, heard_ms: int = NOW_MS) -> RankValues:
    """What the aggregator answers at ``NOW_MS``; it has heard every source at ``heard_ms``."""
    state, data = paper.state, paper.state.data
    places = {s.identity.key: s for s in data.sources if s.attempt == data.attempt}
    peer = Peer(heard_mono_ns=heard_ms * MS, frame_mono_ns=heard_ms * MS)
    told = [Told(s, source_status(s, peer, NOW_MS * MS)) for _, s in sorted(places.items())]
    reply = rank_values(state, Ranks(7, tags), told, Moment(EPOCH, NOW_MS * MS, "boot"))
    encoded = encode_message(reply)
    assert len(encoded) < MAX_MESSAGE_BYTES
    decoded = decode_reply(encoded)
    assert isinstance(decoded, RankValues)
    return decoded


def values(reply: RankValues, row: int) -> dict[str, tuple[float, float]]:
    """Value and age of what the source has."""
    count = len(reply.tags)
    found = struct.unpack(f"<{count}d", reply.rows[row].values)
    ages = struct.unpack(f"<{count}d", reply.rows[row].ages_s)
    pairs = zip(reply.tags, zip(found, ages, strict=True), strict=True)
    return {tag: pair for tag, pair in pairs if not math.isnan(pair[1])}


def row_of(reply: RankValues, rank: int, role: str = "learner") -> RankRow:
    return next(r for r in reply.rows if (r.key.rank, r.key.role) == (rank, role))


def test_each_rank_has_its_newest_value_and_the_ends_say_who_holds_them() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 9.0, "b": 9.0}, t=8000))
    paper.fold(zero.iteration(2, {"a": 1.0, "b": 4.0}, t=9000, env_steps=64))
    paper.fold(one.iteration(1, {"a": 5.0, "b": 2.0}, t=9500))
    reply = ask(paper, "b", "a")
    assert (reply.request, reply.epoch, reply.attempt, reply.mono_ns) == (7, EPOCH, 1, NOW_MS * MS)
    assert (reply.tags, reply.expected_learners) == (("b", "a"), 2)
    assert values(reply, 0) == {"b": (4.0, 1.0), "a": (1.0, 1.0)}
    assert values(reply, 1) == {"b": (2.0, 0.5), "a": (5.0, 0.5)}
    assert [(r.iteration, r.env_steps, r.state) for r in reply.rows] == [
        (2, 64, "live"),
        (1, None, "live"),
    ]
    assert reply.rows[0].cursor == zero.sequence
    keys = SourceKey(0, "learner"), SourceKey(1, "learner")
    assert reply.spreads == (
        RankSpread(2, 0, 2.0, 3.0, 4.0, keys[1], keys[0]),
        RankSpread(2, 0, 1.0, 3.0, 5.0, keys[0], keys[1]),
    )


def test_what_was_not_logged_again_keeps_its_own_age() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0, "rare": 8.0}, t=2000))
    paper.fold(zero.iteration(2, {"a": 2.0}, t=9000, more=True))
    paper.fold(zero.iteration(2, {"c": 3.0}, t=9500))
    assert values(ask(paper), 0) == {"a": (2.0, 1.0), "rare": (8.0, 8.0), "c": (3.0, 0.5)}


def test_the_older_layout_does_not_win_when_it_is_looked_at_last() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    for first, second in (({"a": 1.0}, {"a": 2.0, "b": 0.0}), ({"a": 3.0, "b": 0.0}, {"a": 4.0})):
        t = 9000 + round(second["a"])
        paper.fold(zero.iteration(t, first, t=t - 1), zero.iteration(t, second, t=t))
        assert values(ask(paper, "a"), 0)["a"][0] == second["a"]


def test_a_lost_rank_keeps_its_last_values_and_leaves_the_spread() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, t=9000), one.iteration(1, {"a": 5.0}, t=4000))
    paper.lose(one)
    reply = ask(paper, "a")
    assert [r.state for r in reply.rows] == ["live", "lost"]
    assert values(reply, 1) == {"a": (5.0, 6.0)}
    key = SourceKey(0, "learner")
    assert reply.spreads == (RankSpread(1, 0, 1.0, 1.0, 1.0, key, key),)


def test_a_rank_that_is_through_leaves_the_spread_while_another_is_at_work() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, t=9000), one.iteration(1, {"a": 5.0}, t=4000))
    paper.fold(one.end("failed", t=4100))
    reply = ask(paper, "a")
    assert [r.state for r in reply.rows] == ["live", "finished"]
    assert values(reply, 1) == {"a": (5.0, 6.0)}
    assert (reply.spreads[0].count, reply.spreads[0].maximum) == (1, 1.0)
    paper.fold(zero.end(t=9100))
    assert (ask(paper, "a").spreads[0].count, ask(paper, "a").spreads[0].maximum) == (2, 5.0)


def test_a_silent_rank_is_told_as_such_and_counts() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, t=9000), one.iteration(1, {"a": 5.0}, t=4000))
    reply = ask(paper, "a", heard_ms=NOW_MS - 6000)
    assert [(r.state, r.age_s, r.frame_age_s) for r in reply.rows] == 2 * [("silent", 6.0, 6.0)]
    assert reply.spreads[0].count == 2


def test_a_value_for_a_sealed_iteration_is_the_newest_if_it_was_logged_last() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, t=1000), one.iteration(1, {"a": 2.0}, t=1000))
    paper.settle()
    paper.fold(zero.iteration(2, {"a": 3.0}, t=2000), zero.iteration(1, {"late": 4.0}, t=2001))
    assert values(ask(paper), 0) == {"a": (3.0, 8.0), "late": (4.0, 7.999)}


def test_nan_and_infinities_are_values_and_no_part_of_the_mean() -> None:
    paper = PaperRun()
    ranks = [paper.join(rank, learners=4) for rank in range(4)]
    for source, value in zip(ranks, (math.nan, math.inf, 3.0, 5.0), strict=True):
        paper.fold(source.iteration(1, {"a": value}, t=NOW_MS))
    paper.fold(ranks[0].iteration(2, {"only": math.nan}, t=NOW_MS))
    reply = ask(paper, "a", "only", "never")
    assert math.isnan(values(reply, 0)["a"][0])
    assert values(reply, 1) == {"a": (math.inf, 0.0)}
    assert [(s.count, s.nonfinite, s.mean) for s in reply.spreads] == [
        (2, 2, 4.0),
        (0, 1, None),
        (0, 0, None),
    ]


def test_large_values_have_a_mean() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.5e308}, t=1))
    assert ask(paper, "a").spreads[0].mean == 1.5e308


def test_collectors_of_a_rank_have_rows_of_their_own() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    first = paper.join(0, "collector")
    second = paper.join(0, "collector", instance=1)
    paper.fold(zero.iteration(1, {"a": 1.0}, t=9000))
    paper.fold(first.report({"c": 2.0}, t=9000, env_steps=10))
    paper.fold(second.report({"c": 3.0}, t=9900), second.report({"c": 4.0}, t=9950))
    paper.fold(first.report({"d": 2.0}, t=8000, env_steps=7))
    reply = ask(paper)
    assert [(r.key, r.iteration, r.env_steps) for r in reply.rows] == [
        (SourceKey(0, "collector", 0), None, 10),
        (SourceKey(0, "collector", 1), None, None),
        (SourceKey(0, "learner", 0), 1, None),
    ]
    assert [values(reply, row) for row in range(3)] == [
        {"c": (2.0, 1.0), "d": (2.0, 2.0)},
        {"c": (4.0, 0.05)},
        {"a": (1.0, 1.0)},
    ]
    assert reply.spreads[1].highest == SourceKey(0, "collector", 1)


def test_partials_are_shown_as_means_and_a_weight_of_zero_is_no_value() -> None:
    paper, zero, one = two_learners()
    weights = {"a": 4.0, "b": 0.0}
    paper.fold(zero.iteration(1, {"a": 6.0, "b": 0.0}, t=9000, weights=weights))
    paper.fold(one.iteration(1, {"a": 6.0, "b": 7.0}, t=9000))
    reply = ask(paper, "a", "b")
    assert values(reply, 0) == {"a": (1.5, 1.0)}
    assert values(reply, 1) == {"a": (6.0, 1.0), "b": (7.0, 1.0)}


def test_the_clock_of_another_node_is_only_compared_with_itself() -> None:
    paper = PaperRun()
    far = paper.join(0, boot="other")
    paper.fold(far.iteration(1, {"a": 1.0, "b": 1.0}, t=900_000))
    paper.fold(far.iteration(2, {"a": 1.0}, t=903_000))
    found = values(ask(paper, heard_ms=NOW_MS - 500), 0)
    assert found == {"a": (1.0, 0.5), "b": (1.0, 3.5)}


def test_what_came_reduced_from_another_rank_than_0_is_no_value_of_that_rank() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}, already_reduced=True))
    assert [r.key.rank for r in ask(paper).rows if not math.isnan(struct.unpack("<d", r.values)[0])]
    assert [len(values(ask(paper), row)) for row in (0, 1)] == [1, 0]


def test_a_new_attempt_shows_the_processes_of_that_attempt() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(9, {"a": 1.0}, t=1), one.iteration(9, {"a": 2.0}, t=1))
    paper.lose(zero)
    paper.lose(one)
    paper.fold(OpenAttempt(2, 0))
    again = paper.join(0, learners=2, started=5000)
    assert [(r.key.rank, r.iteration) for r in ask(paper, "a").rows] == [(0, None)]
    assert values(ask(paper, "a"), 0) == {}
    paper.fold(again.iteration(5, {"a": 3.0}, t=9000))
    paper.fold(one.iteration(10, {"a": 4.0}, t=9000))
    reply = ask(paper, "a")
    assert (reply.attempt, reply.expected_learners, len(reply.rows)) == (2, 2, 1)
    assert values(reply, 0) == {"a": (3.0, 1.0)}


def test_after_a_restart_the_table_fills_again() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(4, {"a": 1.0}, t=1))
    paper.state = AggregatorState(paper.state.snapshot())
    assert (ask(paper, "a").rows[0].iteration, values(ask(paper, "a"), 0)) == (4, {})
    paper.fold(zero.iteration(5, {"a": 2.0}, t=NOW_MS))
    assert values(ask(paper, "a"), 0) == {"a": (2.0, 0.0)}


def test_nobody_yet_is_an_answer_too() -> None:
    reply = ask(PaperRun(), "a")
    assert (reply.rows, reply.spreads) == ((), (RankSpread(0, 0),))
    assert ask(PaperRun()).tags == ()


def many(ranks: int, tags: int, prefix: str = "Loss/some_metric_") -> PaperRun:
    paper = PaperRun()
    names = [f"{prefix}{number:05d}" for number in range(tags)]
    for rank in range(ranks):
        source = paper.join(rank, learners=ranks)
        for at in range(0, tags, 4096):
            part = {name: float(rank) for name in names[at : at + 4096]}
            paper.fold(source.iteration(1, part, t=1, more=at + 4096 < tags))
    return paper


def test_64_ranks_and_a_hundred_tags_fit_one_message() -> None:
    reply = ask(many(64, 100))
    assert (len(reply.rows), len(reply.tags)) == (64, 100)
    assert (reply.left_out_tags, reply.left_out_rows) == (0, 0)
    assert all(s.minimum == 0.0 and s.maximum == 63.0 and s.mean == 31.5 for s in reply.spreads)


def test_who_asks_for_too_much_is_told_how_much_was_left_out() -> None:
    names = tuple(f"Loss/some_metric_{number:05d}" for number in range(12_345))
    paper = many(64, 12_345)
    reply = ask(paper, *names)
    assert len(reply.rows) == 64
    assert 500 < len(reply.tags) < 4096
    assert reply.tags == names[: len(reply.tags)]
    assert len(reply.tags) + reply.left_out_tags == 12_345
    assert len(values(reply, 63)) == len(reply.tags)
    assert len(ask(paper).tags) == 100


@pytest.mark.parametrize("role", ["collector", "数" * 256], ids=["short", "long"])
def test_as_many_sources_as_a_run_may_have_are_bounded_too(role: str) -> None:
    paper = PaperRun()
    for rank in range(4096):
        paper.join(rank, role)
    reply = ask(paper, *(f"{'€' * 500}{number:03d}" for number in range(20)))
    assert len(reply.tags) >= 8
    assert len(reply.rows) > (500 if len(role) > 9 else 3000)
    assert len(reply.rows) + reply.left_out_rows == 4096


def churn(source: PaperSource, count: int, tags: int) -> list[TagNames | SparseFrame]:
    """Sparse frames, each of a key set of its own."""
    made: list[TagNames | SparseFrame] = [TagNames(0, tuple(f"t{n}" for n in range(tags + count)))]
    for k in range(count):
        numbers = struct.pack(f"<{tags}I", *range(k, k + tags))
        packed = struct.pack(f"<{tags}d", *([float(k)] * tags))
        made.append(SparseFrame(numbers, k, None, k * MS, 0, packed))
    return made


def test_ever_new_key_sets_keep_a_bounded_number_of_frames() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.batch(*churn(zero, 300, 3)))
    kept = paper.state.newest_frames
    assert len(kept.of(0)) == newest_frames.MAX_FRAMES
    assert len(kept._tags) <= 3 * newest_frames.MAX_FRAMES + 1
    assert values(ask(paper, "t299", "t301"), 0) == {"t299": (299.0, 9.701), "t301": (299.0, 9.701)}


def test_the_memory_for_newest_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_frames, "MAX_BYTES", 10_000)
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.batch(*churn(zero, 60, 20)))
    kept = paper.state.newest_frames
    assert 0 < len(kept.of(0)) * (16 * 20) < 10_000
    assert values(ask(paper, "t78"), 0) == {"t78": (59.0, 9.941)}
