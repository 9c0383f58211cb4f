"""The bus's own figures become tags of an update, and of its refold."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import BusNews, Seal, SourceNews
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.bus_meter import INTERVAL_NS, BusMeter, CommitTimes
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.control import SourceFigures
from unilab_schema.frames import Drops, End
from unilab_schema.metrics import BUS, MetricTable


def two_ranks() -> tuple[PaperRun, PaperSource, PaperSource, PaperSource]:
    run = PaperRun()
    zero, one = run.join(0, learners=2), run.join(1, learners=2)
    return run, zero, one, run.join(1, "collector", learners=2)


def sealed(run: PaperRun, k: int, news: BusNews | None) -> dict[str, float]:
    run.fold(Seal(k, k * MS, k * MS, bus=news))
    return run.last()


def test_figures_of_a_rank_are_one_value_and_then_reduced_over_ranks() -> None:
    run, zero, one, collector = two_ranks()
    run.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    news = BusNews(
        (
            SourceNews(0, SourceFigures(5, 10, 100_000, 20.0), duplicates=2),
            SourceNews(1, SourceFigures(1, 10, 300_000, 90.0)),
            SourceNews(
                2,
                SourceFigures(3, 20, 400_000, 40.0),
                drops={"bad_tag": 4},
                troubles={"key_refused": 1},
            ),
        ),
        bad_messages=7,
        commit_ms=1.5,
    )
    assert sealed(run, 1, news) == {
        "a": 2.0,
        "Bus/backlog_frames": 9.0,
        "Bus/ack_latency_ms": 90.0,
        "Bus/publish_us": pytest.approx(800.0 / 40),
        "Bus/late_values": 0.0,
        "Bus/duplicate_frames": 2.0,
        "Bus/lost_frames": 0.0,
        "Bus/refused_frames": 0.0,
        "Bus/bad_messages": 7.0,
        "Bus/commit_ms": 1.5,
        "Bus/dropped/bad_tag": 4.0,
        "Bus/trouble/key_refused": 1.0,
    }
    assert collector.index == 2


def test_counters_never_fall_and_cost_is_of_the_calls_since_the_last_figures() -> None:
    run, zero, one, _ = two_ranks()
    run.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 1.0}))
    first = SourceFigures(0, 10, 1_000_000)
    sealed(run, 1, BusNews((SourceNews(0, first, 3, 1, {"oversize": 2}),), 1))
    run.lose(one)
    run.fold(zero.iteration(2, {"a": 1.0}))
    values = sealed(run, 2, BusNews((SourceNews(0, SourceFigures(0, 12, 1_040_000), 1),), 2))
    assert values["Bus/publish_us"] == 20.0
    assert values["Bus/duplicate_frames"] == 4.0
    assert values["Bus/bad_messages"] == 3.0
    assert values["Bus/dropped/oversize"] == 2.0


def test_an_update_without_news_lacks_the_tags_and_a_refold_gives_the_same() -> None:
    run, zero, one, _ = two_ranks()
    for k in range(1, 4):
        run.fold(zero.iteration(k, {"a": 1.0}), one.iteration(k, {"a": 1.0}))
        sealed(run, k, BusNews((), k, 1.0) if k != 2 else None)
    assert [any(t.startswith("Bus/") for t in v) for _, v in run.updates()] == [True, False, True]
    again = AggregatorState()
    refolded = [publication for entry in run.entries for publication in again.handle(entry)]
    assert refolded == run.published


def test_what_a_source_logs_under_a_bus_tag_does_not_count() -> None:
    run, zero, one, _ = two_ranks()
    forged = {"Bus/lost_frames": 99.0, "a": 1.0}
    run.fold(zero.iteration(1, forged), one.iteration(1, forged))
    assert sealed(run, 1, BusNews())["Bus/lost_frames"] == 0.0
    for strict in (False, True):
        assert "bus itself" in (MetricTable().check("Bus/lost_frames", strict=strict) or "")
        assert "bus itself" in (MetricTable().check("Bus/dropped/x", strict=strict) or "")


def test_every_bus_tag_has_a_unit_both_reductions_and_reaches_backends() -> None:
    for tag, spec in BUS.items():
        assert spec.unit
        assert spec.over_time == "last"
        assert spec.description.endswith(".")
        assert spec.persisted
        assert spec.label
        assert spec.logger_owned
        assert (spec.unit == "ms") == tag.endswith("_ms")
        assert (spec.unit == "us") == tag.endswith("_us")
    family = MetricTable().spec("Bus/dropped/spool_full")
    assert family is not None
    assert (family.unit, family.over_ranks) == ("calls", "sum")


def test_the_meter_tells_only_what_is_new_and_not_too_often() -> None:
    peer = Peer()
    commits, bad = CommitTimes(), [0]
    meter = BusMeter({4: peer, 5: Peer()}, commits, lambda: bad[0])
    peer.figures, peer.duplicates, peer.has_news = SourceFigures(1, 2, 3), 2, True
    commits.add(2_000_000)
    commits.add(4_000_000)
    bad[0] = 6
    assert meter.untold_bad_messages == 6
    assert meter.news(1) == BusNews((SourceNews(4, SourceFigures(1, 2, 3), 2),), 6, 3.0)
    assert meter.untold_bad_messages == 0
    assert meter.news(2) is None
    assert meter.news(1 + INTERVAL_NS) == BusNews()


def test_the_newest_word_of_a_source_on_its_troubles_counts() -> None:
    run, _, one, collector = two_ranks()
    run.fold(collector.batch(Drops({"bad_tag": 1}, {"key_refused": 1})))
    source = run.state.data.sources[collector.index]
    assert (source.drops, source.troubles) == ({"bad_tag": 1}, {"key_refused": 1})
    run.fold(collector.batch(Drops({"bad_tag": 1}, {"key_refused": 2})))
    assert source.troubles == {"key_refused": 2}
    run.fold(one.batch(End("completed", 0, 0, {}, {"store_unusable": 3})))
    ended = run.state.data.sources[one.index]
    assert (ended.drops, ended.troubles) == ({}, {"store_unusable": 3})


def test_what_a_node_says_joins_the_update_that_it_was_told_with() -> None:
    run, zero, one, _ = two_ranks()
    tag = "Node/0/cpu_percent"
    for k, node in ((1, {tag: 43.0}), (2, {})):
        # Nobody else has this name.
        run.fold(zero.iteration(k, {"a": 1.0}), one.iteration(k, {"a": 1.0, tag: 99.0}))
        sealed(run, k, BusNews(node=node))
    assert [values.get(tag) for _, values in run.updates()] == [43.0, None]
