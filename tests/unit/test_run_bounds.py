"""What a source may make the aggregator keep: floods are bounded where they would be kept."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import psutil
import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding import (
    facts,
    reduction,
    remembering,
    reports,
    sources,
    update_layouts,
)
from unilab_metrics.aggregate.folding.entries import AcceptedBatch, BusNews, Seal
from unilab_metrics.aggregate.folding.limits import MAX_REASONS, bounded_counts, hello_fault
from unilab_metrics.aggregate.folding.packed import unpack_values
from unilab_metrics.aggregate.folding.refused_frames import refused_of
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_metrics.aggregate.receiving.refusals import MAX_PER_SECOND, Refusals
from unilab_metrics.run.summary import summary_fields
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import MAX_FRAME_BYTES, RecordKind, encode_payload
from unilab_schema.control import Hello
from unilab_schema.frames import (
    BlobFrame,
    DefinitionFrame,
    Drops,
    EventFrame,
    Gap,
    Layout,
    SparseFrame,
    TagNames,
)
from unilab_schema.metrics import MetricSpec
from unilab_schema.updates import Supplement, Update

NAMES = 2000


def learner() -> tuple[PaperRun, PaperSource]:
    run = PaperRun()
    return run, run.join(0)


def flood(frames: int, frames_per_iteration: int) -> AggregatorState:
    """Frames of random key sets of one source, sealed as they come; nothing is kept here."""
    run, source = learner()
    state, rng = run.state, random.Random(7)
    state.handle(source.batch(TagNames(0, tuple(f"Flood/{n}" for n in range(NAMES)))))
    values = struct.pack("<5d", 1.0, 2.0, 3.0, 4.0, 5.0)
    for k in range(frames // frames_per_iteration):
        key_sets = [rng.sample(range(NAMES), 5) for _ in range(frames_per_iteration)]
        made = [
            SparseFrame(struct.pack("<5I", *numbers), k, None, k, k, values, more=True)
            for numbers in key_sets[1:]
        ]
        last = SparseFrame(struct.pack("<5I", *key_sets[0]), k, None, k, k, values)
        state.handle(source.batch(*made, last))
        state.handle(Seal(k, k, k))
    assert state.data.quarantined == 0
    assert state.data.iterations_sealed == frames // frames_per_iteration
    return state


def test_random_key_sets_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in (
        (sources, "MAX_KEY_SETS"),
        (update_layouts, "MAX_REMEMBERED"),
        (reduction, "MAX_KNOWN"),
    ):
        monkeypatch.setattr(module, limit, 50)
    tracemalloc.start()
    try:
        state = flood(3000, 2)
        grown_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown_bytes < 2_500_000
    again = AggregatorState(state.snapshot())
    assert again.data.next_update == state.data.next_update


@pytest.mark.slow
def test_frames_of_ever_new_key_sets_stay_below_50_megabytes() -> None:
    flood(10_000, 100)
    before_bytes = psutil.Process().memory_info().rss
    state = flood(300_000, 100)
    assert psutil.Process().memory_info().rss - before_bytes < 50_000_000
    assert len(state.snapshot()) < 16 * 1024 * 1024


def test_a_forgotten_layout_gets_a_new_number_and_late_values_are_only_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(update_layouts, "MAX_REMEMBERED", 4)
    run, source = learner()
    for k in range(8):
        run.fold(source.iteration(k, {f"a{k % 6}": 1.0, "b": 2.0}))
        run.settle()
    numbers = [entry.layout for entry, _ in run.updates()]
    assert numbers == list(range(8)), "a number is never given twice"
    run.fold(source.iteration(0, {"a0": 5.0, "c": 5.0}))
    run.settle(1100)
    assert run.state.data.late_values == 2
    assert not any(isinstance(entry, Supplement) for entry, _ in run.updates())


def test_tags_beyond_the_limit_are_left_out_and_counted_and_others_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, source = learner()
    monkeypatch.setattr(reduction, "MAX_RUN_TAGS", len(run.state.columns.tags) + 3)
    run.fold(source.iteration(1, {"a": 1.0, "b": 2.0}), source.iteration(2, {"b": 3.0}))
    run.fold(source.iteration(3, {"c": 4.0, "d": 5.0, "a": 6.0, "e": 7.0}))
    names = TagNames(0, ("a", "f", "g"))
    values = struct.pack("<3d", 1.0, 2.0, 3.0)
    run.fold(source.batch(names, SparseFrame(struct.pack("<3I", 0, 1, 2), 4, None, 0, 0, values)))
    run.settle()
    assert [values for _, values in run.updates()] == [
        {"a": 1.0, "b": 2.0},
        {"b": 3.0},
        {"a": 6.0, "c": 4.0},
        {"a": 1.0},
    ]
    assert run.state.columns.refused == 4
    assert run.state.data.quarantined == 0
    again = AggregatorState(run.state.snapshot())
    assert again.columns.refused == 4
    assert again.data.sources[0].refused == {"too_many_run_tags": 4}, "each value is counted"


def test_values_of_reports_beyond_the_limit_are_counted_each_time_and_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, source = learner()
    collector = run.join(0, "collector")
    monkeypatch.setattr(reduction, "MAX_RUN_TAGS", len(run.state.columns.tags) + 1)
    run.fold(collector.batch(Drops({"bad_tag": 2})))
    for k in range(1, 4):
        run.fold(collector.report({"a": 1.0, "b": 2.0}, t=k))
        run.fold(source.iteration(k, {"c": 1.0, "d": 2.0}, t=k))
    run.settle()
    learner_state, collector_state = run.state.data.sources
    assert learner_state.dropped() == {"too_many_run_tags": 6}
    assert collector_state.dropped() == {"bad_tag": 2, "too_many_run_tags": 3}
    peer = Peer(drops={"bad_tag": 5})
    assert source_status(collector_state, peer, 0).drops == {"bad_tag": 5, "too_many_run_tags": 3}
    outcome = outcome_of(run.state, tmp_path, {}, {})
    assert summary_fields(outcome)["bus"]["dropped_calls"] == {
        "bad_tag": 2,
        "too_many_run_tags": 9,
    }
    run.state.handle(source.iteration(4, {"c": 1.0}, t=4))
    (published,) = run.state.handle(Seal(4, 5 * MS, 5, bus=BusNews()))
    assert isinstance(published.entry, Update)
    sealed = dict(zip(published.tags, unpack_values(published.entry.values), strict=True))
    assert sealed["Bus/dropped/too_many_run_tags"] == 10.0


def test_reports_that_no_iteration_takes_in_are_counted_as_far_as_nothing_of_them_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "MAX_PENDING_REPORTS", 10)
    run, _ = learner()
    collector = run.join(0, "collector")
    run.fold(collector.batch(DefinitionFrame(MetricSpec("flow", "user", "", "sum", "sum"))))
    for k in range(11):
        run.fold(collector.report({"flow": 1.0, "state": 2.0}, t=k))
    state = run.state.data.sources[1]
    assert state.dropped() == {"too_many_reports": 6}
    assert set(state.reports.held.states) == {"state"}


def test_a_frame_that_is_refused_gets_words_once_for_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facts, "MAX_DEFINITIONS", 1)
    run, source = learner()
    for n in range(5):
        run.fold(source.batch(DefinitionFrame(MetricSpec(f"m{n}", "user", "m", "sum"))))
    (text,) = run.state.refusals.take({})
    assert "learner of rank 0" in text
    assert "is refused (definition: 1 are known already)" in text
    assert refused_of(run.state.data.sources[0]) == {"refused_frame": 4}
    run.fold(source.batch(DefinitionFrame(MetricSpec("more", "user", "m", "sum"))))
    run.fold(AcceptedBatch(source.index, 0, encode_record(200, source.sequence + 1, b"")))
    (text,) = run.state.refusals.take({})
    assert "kind 200" in text
    assert run.state.refusals.take({}) == []


def test_an_iteration_too_large_for_one_record_is_an_update_and_supplements() -> None:
    run, source = learner()
    tags = [f"Wide/{'x' * 80}/{n}" for n in range(9000)]
    for start in range(0, len(tags), 1000):
        piece = {tag: float(start) for tag in tags[start : start + 1000]}
        run.fold(source.iteration(1, piece, more=start + 1000 < len(tags)))
    run.settle()
    kinds = [type(entry) for entry, _ in run.updates()]
    assert kinds[0] is Update
    assert set(kinds[1:]) == {Supplement}
    for publication in run.published:
        encode_payload(publication.entry)
    found = {tag for _, values in run.updates() for tag in values}
    assert found == set(tags)


def test_frames_of_an_iteration_that_never_ends_are_merged() -> None:
    run, source = learner()
    for at in range(2000):
        run.fold(source.iteration(1, {"a": float(at), f"b{at % 3}": 1.0}, more=True))
    (share,) = run.state.data.windows.open[1].shares.values()
    assert len(share.frames) <= 257
    run.fold(source.iteration(1, {"c": 1.0}))
    run.settle()
    assert run.last() == {"a": 1999.0, "b0": 1.0, "b1": 1.0, "b2": 1.0, "c": 1.0}
    assert run.state.data.windows.held_bytes == 0


def gap(source: PaperSource, first: int, last: int) -> AcceptedBatch:
    source.sequence = last
    payload = encode_payload(Gap(first, last, "invented"))
    return AcceptedBatch(source.index, 0, encode_record(RecordKind.GAP, last, payload))


def test_an_invented_gap_is_no_loss_that_nobody_had() -> None:
    run, source = learner()
    run.fold(source.iteration(1, {"a": 1.0}))
    state = run.state.data.sources[0]
    before = state.cursor
    absurd = encode_record(RecordKind.GAP, 2**62, encode_payload(Gap(1, 2**62, "")))
    assert accept(state, absurd, 0).entry is None
    run.fold(gap(source, 1, before + 5))
    assert state.lost_frames == 5, "what was taken before is not lost"
    hello = Hello(source.identity, 2**61, 2**61, 0, 0)
    refusal = admit(run.state, hello, lambda _: False).refusal
    assert refusal is not None
    assert refusal.final


@pytest.mark.parametrize(
    "payload",
    [
        BlobFrame(1, "text", "t", 0, 0, bytes(MAX_FRAME_BYTES)),
        EventFrame("status", "x" * MAX_FRAME_BYTES, 0, 0),
    ],
)
def test_a_record_beyond_its_limit_is_refused_before_it_could_end_the_aggregator(
    payload: Any,
) -> None:
    import msgspec

    run, source = learner()
    kind = RecordKind.BLOB if isinstance(payload, BlobFrame) else RecordKind.EVENT
    data = encode_record(kind, 1, msgspec.msgpack.encode(payload))
    run.fold(AcceptedBatch(source.index, 0, data))
    assert run.state.data.quarantined == 1
    source.sequence = 1
    run.fold(source.iteration(1, {"a": 1.0}))
    run.settle()
    assert run.last() == {"a": 1.0}


def test_the_largest_frame_of_a_source_fits_the_history() -> None:
    run, source = learner()
    room = MAX_FRAME_BYTES - len(encode_payload(BlobFrame(1, "text", "t", 0, 0, b""))) - 4
    run.fold(source.batch(BlobFrame(1, "text", "t", 0, 0, bytes(room))))
    assert len(encode_payload(run.published[-1].entry)) > MAX_FRAME_BYTES


def test_parts_of_a_layout_that_never_ends_are_forgotten() -> None:
    run, source = learner()
    for part in range(6):
        tags = tuple(f"p{part}/{n}" for n in range(1000))
        run.fold(source.batch(Layout(0, tags, part, 2**40)))
    assert run.state.data.quarantined == 2
    kept = run.state.data.sources[0].layout_parts.values()
    assert sum(len(tags) for parts in kept for tags in parts) <= 4096


def test_definitions_and_summary_fields_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MAX_DEFINITIONS", 3)
    monkeypatch.setattr(facts, "MAX_REDEFINITIONS", 2)
    monkeypatch.setattr(facts, "MAX_SUMMARY_FIELDS", 5)
    run, source = learner()
    for n in range(10):
        spec = MetricSpec(f"m{n}", "user", "m", "sum")
        run.fold(source.batch(DefinitionFrame(spec)), source.batch(DefinitionFrame(spec)))
    for how in ("min", "max", "mean"):
        run.fold(source.batch(DefinitionFrame(MetricSpec("m0", "user", "m", how))))
    assert [spec.tag for spec in run.state.defined.values()] == ["m1", "m2", "m0"]
    assert run.state.defined["m0"].over_ranks == "max"
    run.fold(source.batch(EventFrame("summary", "", 0, 0, data={f"f{n}": "x" for n in range(9)})))
    assert len(run.state.data.summary) == 5
    assert sum(run.state.data.warnings.values()) == 4


def test_a_changed_definition_reduces_later_iterations_its_way() -> None:
    run = PaperRun()
    zero, one = run.join(0, learners=2), run.join(1, learners=2)
    for k, how in enumerate(("mean", "sum", "max"), 1):
        run.fold(zero.batch(DefinitionFrame(MetricSpec("my/*", "user", "m", how))))
        run.fold(zero.iteration(k, {"my/x": 1.0}), one.iteration(k, {"my/x": 3.0}))
        run.settle()
    assert [values["my/x"] for _, values in run.updates()] == [2.0, 4.0, 3.0]


def test_counts_of_drops_are_few_and_short() -> None:
    counts = {f"reason {n}": 1 for n in range(1000)} | {"x" * 1000: 5, "negative": -3}
    bounded = bounded_counts(counts)
    assert len(bounded) <= MAX_REASONS + 1
    assert sum(bounded.values()) == 1005
    run, source = learner()
    run.fold(source.batch(Drops(counts)))
    assert len(run.state.data.sources[0].drops) <= MAX_REASONS + 1


def test_late_frames_of_ever_other_iterations_keep_a_bounded_memory() -> None:
    run, source = learner()
    run.fold(source.iteration(10**12, {"a": 1.0}))
    run.settle()
    for k in range(1500):
        run.fold(source.iteration(k * 7919, {"a": 1.0}, more=True))
        if k % 500 == 499:
            run.settle()
    run.settle(1100)
    assert len(run.state.data.windows.late) == 0
    assert len(run.state.data.sealed_tags) <= remembering.MAX_REMEMBERED_ITERATIONS


def test_the_highest_rank_costs_no_more_than_any_other() -> None:
    run = PaperRun()
    far = run.join(65_535, learners=65_536)
    run.fold(far.iteration(1, {"a": 1.0}))
    run.fold(Seal(1, 0, 0, "straggler"))
    ((update, _),) = run.updates()
    assert isinstance(update, Update)
    assert len(update.missing_ranks) == 64
    assert len(run.state.snapshot()) < 4096


def test_a_hello_with_endless_names_is_refused() -> None:
    run, source = learner()
    assert not hello_fault(Hello(source.identity, 1, 0, 0, 0)).count("run")
    del run
    run = PaperRun(algorithm="a" * 100_000)
    assert "run" in hello_fault(Hello(run.join(0).identity, 1, 0, 0, 0))


def test_refusals_do_not_answer_a_flood_with_a_flood() -> None:
    refusals = Refusals()
    answered = sum(refusals.may_answer(b"one", "bad_message", n * 1_000) for n in range(200_000))
    assert answered == 2
    refusals = Refusals()
    many = sum(refusals.may_answer(b"%d" % n, "bad_message", n) for n in range(10_000))
    assert many == MAX_PER_SECOND
    assert refusals.may_answer(b"late", "bad_message", 2_000_000_000)
