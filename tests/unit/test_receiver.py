"""Admission and the accept rule."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sources_on_paper import PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import OpenAttempt, RunEnd, SourceGone
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.receiver import admit, returned
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Hello
from unilab_schema.frames import EventFrame, Gap, Layout
from unilab_schema.identity import Identity, RunInfo, SourceKey


def record(sequence: int, kind: RecordKind = RecordKind.EVENT) -> bytes:
    return encode_record(kind, sequence, encode_payload(EventFrame("status", "", 0, 0)))


def gap(first: int, last: int) -> bytes:
    return encode_record(RecordKind.GAP, last, encode_payload(Gap(first, last, "damaged")))


def source(cursor: int = 0) -> SourceState:
    identity = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "h", "b", "", "", 0, 0)
    return SourceState(0, identity, cursor=cursor)


def taken(cursor: int, data: bytes) -> tuple[list[int], int, bool]:
    accepted = accept(source(cursor), data, 0)
    return [r.sequence for r in accepted.records], accepted.duplicates, accepted.rewind


@pytest.mark.parametrize(
    ("cursor", "sequences", "accepted", "duplicates", "rewind"),
    [
        (0, [1, 2, 3], [1, 2, 3], 0, False),
        (2, [1, 2, 3], [3], 2, False),
        (3, [1, 2, 3], [], 3, False),
        (0, [2, 3], [], 0, True),
        (0, [1, 3], [1], 0, True),
        (5, [4, 6, 8], [6], 1, True),
        (0, [], [], 0, False),
    ],
)
def test_only_the_next_sequence_is_taken(
    cursor: int, sequences: list[int], accepted: list[int], duplicates: int, rewind: bool
) -> None:
    data = b"".join(record(sequence) for sequence in sequences)
    assert taken(cursor, data) == (accepted, duplicates, rewind)


def test_gap_takes_the_cursor_over_what_the_source_cannot_supply() -> None:
    assert taken(1, gap(2, 5) + record(6)) == ([5, 6], 0, False)
    assert taken(3, gap(2, 5) + record(6)) == ([5, 6], 0, False)
    assert taken(0, gap(2, 5)) == ([], 0, True)
    assert taken(7, gap(2, 5)) == ([], 1, False)


def test_announcement_is_taken_without_a_sequence() -> None:
    layout = encode_record(RecordKind.LAYOUT, 0, encode_payload(Layout(0, ("a",))))
    assert taken(4, layout + record(5)) == ([0, 5], 0, False)


def test_damaged_bytes_end_a_batch_and_ask_for_a_rewind() -> None:
    broken = bytearray(record(2))
    broken[-1] ^= 0xFF
    assert taken(0, record(1) + bytes(broken) + record(3)) == ([1], 0, True)
    assert taken(0, record(1) + record(2)[:-3]) == ([1], 0, True)


def test_watermark_of_a_batch_with_a_hole_is_not_believed() -> None:
    accepted = accept(source(), record(1) + record(3), 99)
    assert accepted.entry is not None
    assert accepted.entry.watermark_mono_ns == 0


def hello(paper: PaperRun, rank: int, incarnation: bytes, role: str = "learner") -> Hello:
    identity = Identity(
        SourceKey(rank, role), incarnation, 7, "node", "boot", "/s", "/s/lease", 0, 0, 2, paper.run
    )
    return Hello(identity, 1, 0, 0, 0)


def heard(paper: PaperRun, index: int) -> str:
    """What the run says when a source is heard; empty if that is nothing new."""
    found = returned(paper.state, paper.state.data.sources[index], 90.0, 1, 1)
    return "" if found is None else found.text


def alive(_: SourceState) -> bool:
    return False


def dead(_: SourceState) -> bool:
    return True


def two() -> tuple[PaperRun, PaperSource, PaperSource]:
    paper = PaperRun()
    return paper, paper.join(0, learners=2), paper.join(1, learners=2)


def test_known_incarnation_goes_on_and_what_it_lost_is_a_gap() -> None:
    paper, zero, _ = two()
    again = Hello(
        msgspec.structs.replace(zero.identity, spool_path="/s", lease_path="/s/lease"), 4, 9, 0, 0
    )
    (found,) = admit(paper.state, again, alive).entries
    assert (found.source, found.first, found.last) == (0, 1, 3)  # type: ignore[union-attr]


def test_second_process_that_claims_a_live_place_is_refused_and_the_owner_named() -> None:
    paper, _, _ = two()
    refusal = admit(paper.state, hello(paper, 1, b"x" * 16), alive).refusal
    assert refusal is not None
    assert refusal.code == "duplicate_rank"
    assert "pid 101" in refusal.text
    assert not refusal.final


def test_leftovers_of_a_dead_process_come_before_its_successor() -> None:
    paper, _, one = two()
    assert admit(paper.state, hello(paper, 1, b"x" * 16), dead).vacate is not None
    paper.lose(one)
    admission = admit(paper.state, hello(paper, 1, b"x" * 16), alive)
    assert admission.entries
    assert not admission.opens_attempt


def test_new_incarnation_of_learner_zero_opens_an_attempt() -> None:
    paper, zero, _ = two()
    paper.lose(zero)
    admission = admit(paper.state, hello(paper, 0, b"x" * 16), alive)
    assert admission.opens_attempt


def test_other_ranks_wait_for_rank_zero_to_open_the_attempt() -> None:
    paper, zero, one = two()
    paper.lose(zero)
    paper.lose(one)
    refusal = admit(paper.state, hello(paper, 1, b"x" * 16), alive).refusal
    assert refusal is not None
    assert (refusal.code, refusal.final) == ("held", False)


def test_first_ranks_join_in_any_order() -> None:
    paper = PaperRun()
    assert admit(paper.state, hello(paper, 1, b"x" * 16), alive).entries
    paper.join(1, learners=2)
    assert not admit(paper.state, hello(paper, 0, b"y" * 16), alive).opens_attempt


def ended() -> PaperRun:
    paper, zero, one = two()
    for source in (zero, one):
        paper.fold(source.end())
        paper.fold(SourceGone(source.index, "finished", 0, 0))
    paper.fold(RunEnd("completed", "", 0))
    return paper


def test_an_ended_run_is_opened_again_by_learner_zero_and_others_wait_for_it() -> None:
    paper = ended()
    for rank, role in ((1, "learner"), (0, "collector"), (5, "learner")):
        refusal = admit(paper.state, hello(paper, rank, b"x" * 16, role), alive).refusal
        assert refusal is not None
        assert (refusal.code, refusal.final) == ("held", False)
    assert admit(paper.state, hello(paper, 0, b"x" * 16), alive).opens_attempt


def test_an_aggregator_that_ends_the_run_leaves_newcomers_to_the_next_one() -> None:
    paper = ended()
    refusal = admit(paper.state, hello(paper, 0, b"x" * 16), alive, is_closing=True).refusal
    assert refusal is not None
    assert (refusal.code, refusal.final) == ("closing", False)


def test_what_a_dead_attempt_left_joins_it_although_its_places_were_taken_before() -> None:
    paper = ended()
    paper.fold(OpenAttempt(2, 0))
    paper.lose(paper.join(0, learners=2))
    assert admit(paper.state, hello(paper, 1, b"x" * 16), alive).entries
    paper.lose(paper.join(1, learners=2))
    assert admit(paper.state, hello(paper, 1, b"y" * 16), alive).refusal is not None


EVIL_IDENTITIES: dict[str, dict[str, Any]] = {
    "lease with a NUL": {"lease_path": "/s/\0lease"},
    "no lease": {"lease_path": ""},
    "somebody else's lease": {"lease_path": "/bus/aggregator.lease"},
    "a lease outside of the spool": {"spool_path": "/t"},
    "a relative spool": {"spool_path": "s", "lease_path": "s/lease"},
    "a long spool": {"spool_path": "/" + "s" * 5000, "lease_path": "/" + "s" * 5000 + "/lease"},
    "a short incarnation": {"incarnation": b"x"},
    "too many learners": {"expected_learners": 2**64 - 1},
    "no learner": {"expected_learners": 0},
    "a negative rank": {"key": SourceKey(-1, "learner")},
    "a huge rank": {"key": SourceKey(10**7, "learner")},
    "no role": {"key": SourceKey(0, "")},
    "a clock beyond int64": {"started_mono_ns": 2**64 - 1},
    "a world of millions": {"run": RunInfo(world_size=10_000_000)},
}


@pytest.mark.parametrize("fault", EVIL_IDENTITIES)
def test_identity_that_is_not_sane_is_refused_for_good_before_it_is_journaled(fault: str) -> None:
    paper = PaperRun()
    good = hello(paper, 0, b"x" * 16)
    evil = msgspec.structs.replace(good.identity, **EVIL_IDENTITIES[fault])
    admission = admit(paper.state, Hello(evil, 1, 0, 0, 0), alive)
    assert admission.entries == ()
    assert admission.refusal is not None
    assert admission.refusal.final


@pytest.mark.parametrize(("first", "last"), [(0, 0), (2**64 - 1, 0), (1, 2**64 - 1), (-1, 5)])
def test_hello_with_impossible_sequences_is_refused(first: int, last: int) -> None:
    paper = PaperRun()
    good = hello(paper, 0, b"x" * 16)
    refusal = admit(paper.state, Hello(good.identity, first, last, 0, 0), alive).refusal
    assert refusal is not None
    assert refusal.final


def test_source_that_was_called_lost_is_live_again_when_it_is_heard() -> None:
    paper, zero, one = two()
    assert heard(paper, one.index) == ""
    paper.lose(one)
    found = returned(paper.state, paper.state.data.sources[one.index], 90.0, 1, 1)
    assert found is not None
    assert "heard again after 90 s" in found.text
    paper.fold(found)
    assert paper.state.data.sources[one.index].status == "live"
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    assert paper.updates() == []
    paper.fold(one.iteration(1, {"a": 3.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_lost_source_does_not_come_back_into_the_place_of_another() -> None:
    paper, _, one = two()
    paper.lose(one)
    paper.join(1, learners=2)
    assert heard(paper, one.index) == ""


def test_lost_source_does_not_come_back_into_another_attempt() -> None:
    paper, _, one = two()
    paper.lose(one)
    paper.fold(OpenAttempt(2, 0))
    assert heard(paper, one.index) == ""


def test_lost_source_comes_back_into_a_run_that_has_ended() -> None:
    paper, _, one = two()
    paper.lose(one)
    paper.fold(RunEnd("failed", "", 0))
    assert "heard again" in heard(paper, one.index)
