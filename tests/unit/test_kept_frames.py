"""Frames behind a hole in a damaged wal: a gap of their source stands for the hole alone, and what
it costs shows in what follows."""

from __future__ import annotations

import struct

import msgspec
import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import SourceGone
from unilab_metrics.aggregate.folding.kept_frames import all_kept, gap_record
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_metrics.storage.records import encode_record, scan
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Hello
from unilab_schema.frames import IterationFrame, Layout

LAYOUT = encode_record(RecordKind.LAYOUT, 0, encode_payload(Layout(0, ("Loss/value",))))


def iteration(sequence: int, k: int) -> bytes:
    frame = IterationFrame(0, k, None, k * MS, k * MS, struct.pack("<d", float(k)))
    return encode_record(RecordKind.ITERATION, sequence, encode_payload(frame))


class Damaged:
    """A learner with sequences 1 and 2 taken, 3 and 4 damaged, 5 and 6 kept, all in the wal."""

    def __init__(self, *, told_through: int = 6, last_sealed: int | None = None) -> None:
        self.paper = PaperRun()
        on_paper: PaperSource = self.paper.join(0)
        self.paper.fold(on_paper.batch(Layout(1, ("Loss/other",))))
        self.source: SourceState = self.paper.state.data.sources[0]
        self.source.cursor = 2
        self.source.told_through = told_through
        self.source.beyond, self.source.beyond_last = iteration(5, 5) + iteration(6, 6), 6
        data = self.paper.state.data
        data.absorbed_attempt, data.opened = 1, True
        data.windows.last_sealed = last_sealed

    def take(self, records: bytes) -> list[tuple[int, int]]:
        accepted = accept(self.source, records, 0)
        assert accepted.entry is not None
        self.paper.fold(accepted.entry)
        return [(r.kind, r.sequence) for r in scan(accepted.entry.records).records]


GAP, FRAME = RecordKind.GAP, RecordKind.ITERATION
RESENT = gap_record(3, 7, "not readable in the spool") + LAYOUT + iteration(8, 8)


def test_a_gap_stands_for_what_nobody_has() -> None:
    damaged = Damaged()
    taken = damaged.take(RESENT)
    assert taken == [(GAP, 4), (RecordKind.LAYOUT, 0), (FRAME, 5), (FRAME, 6), (GAP, 7), (FRAME, 8)]
    assert damaged.source.lost_frames == 3
    assert damaged.source.quarantined == 0
    assert (damaged.source.beyond, damaged.source.cursor) == (b"", 8)
    assert sorted(damaged.paper.state.data.windows.open) == [5, 6, 8]


def test_what_the_source_still_has_is_taken_once() -> None:
    damaged = Damaged()
    again = b"".join(iteration(n, n) for n in range(3, 9))
    assert damaged.take(LAYOUT + again)[1:] == [(FRAME, n) for n in range(3, 9)]
    assert (damaged.source.lost_frames, damaged.source.beyond) == (0, b"")


def test_a_hole_whose_end_is_in_the_history_costs_nothing() -> None:
    damaged = Damaged(last_sealed=5)
    damaged.take(RESENT)
    # Only what was never in the journal: 7.
    assert damaged.source.lost_frames == 1
    assert sorted(damaged.paper.state.data.windows.open) == [6, 8]


def test_without_a_spool_all_that_is_kept_is_taken_when_the_source_leaves() -> None:
    damaged = Damaged()
    assert damaged.take(LAYOUT + all_kept(damaged.source)) == [
        (RecordKind.LAYOUT, 0), (GAP, 4), (FRAME, 5), (FRAME, 6),
    ]  # fmt: skip
    assert all_kept(damaged.source) == b""
    assert damaged.source.lost_frames == 2


@pytest.mark.parametrize(("last_sealed", "lost"), [(None, 2), (3, 2), (4, 0)])
def test_a_hole_at_the_very_end_is_lost_unless_the_history_went_on(
    last_sealed: int | None, lost: int
) -> None:
    damaged = Damaged(told_through=4, last_sealed=last_sealed)
    source = damaged.source
    source.beyond, source.beyond_last, source.last_iteration = b"", 0, 2
    damaged.take(all_kept(source, source.told_through))
    damaged.paper.fold(SourceGone(0, "lost", 0, 0))
    assert source.lost_frames == lost


@pytest.mark.parametrize(("told_through", "gaps"), [(6, 0), (0, 1)])
def test_who_is_set_back_says_itself_what_it_lacks(told_through: int, gaps: int) -> None:
    damaged = Damaged(told_through=told_through)
    damaged.source.beyond, damaged.source.beyond_last = b"", 0
    paths = {"spool_path": "/spools/x", "lease_path": "/spools/x/lease"}
    hello = Hello(msgspec.structs.replace(damaged.source.identity, **paths), 8, 9, 0, 0)
    admission = admit(damaged.paper.state, hello, lambda _: False)
    assert (admission.refusal, len(admission.entries)) == (None, gaps)
