"""A live spool that somebody shortens from outside, as a copying rotation of logs does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_runs import until
from spooled import of_kind, spooled_publisher

from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame, Gap
from unilab_schema.identity import Identity, SourceKey


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    identity = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)
    made = Spool(tmp_path / "spool", identity, Losses())
    yield made
    made.close(remove=False)


def append(spool: Spool, *texts: str) -> None:
    for text in texts:
        payload = encode_payload(EventFrame("status", text, 0, 0))
        assert spool.append(RecordKind.EVENT, lambda _mono, _unix, p=payload: p)


def shorten(spool: Spool, *, by: int | None = None) -> None:
    path = spool.files.current.path
    os.truncate(path, 0 if by is None else path.stat().st_size - by)


def texts_of(records: bytes) -> list[str]:
    """Texts; a gap is its numbers."""
    found: list[str] = []
    for record in scan(records).records:
        payload = decode_payload(record.kind, record.payload)
        if isinstance(payload, Gap):
            found.append(f"{payload.first}-{payload.last}")
        elif record.sequence:
            found.append(payload.text)
    return found


def taken(spool: Spool, after: int = 0, max_bytes: int = 10**6) -> list[str]:
    """What the shipper sends."""
    found: list[str] = []
    while after < spool.last:
        batch = spool.files.take(after, spool.last, max_bytes)
        found += texts_of(batch.records)
        after = batch.last
    return found


def left_for_others(spool: Spool) -> list[str]:
    return [text for batch in SpoolReader(spool.directory).batches() for text in texts_of(batch[0])]


@pytest.mark.parametrize("max_bytes", [1, 10**6])
def test_one_byte_costs_one_record_whatever_was_appended_afterwards(
    spool: Spool, max_bytes: int
) -> None:
    append(spool, "one", "two", "three")
    shorten(spool, by=1)
    append(spool, "four", "five")
    assert spool.mend(0).endswith("; 1 unconfirmed records are gone")
    assert spool.mend(0) == ""
    append(spool, "six")
    expected = ["one", "two", "3-3", "four", "five", "six"]
    assert taken(spool, max_bytes=max_bytes) == expected
    assert left_for_others(spool) == expected


def test_an_emptied_file_costs_what_was_in_it_and_not_what_follows(spool: Spool) -> None:
    append(spool, "one", "two", "three")
    shorten(spool)
    append(spool, "four")
    assert spool.mend(1).endswith("; 2 unconfirmed records are gone"), (
        "the first one is in the journal"
    )
    append(spool, "five")
    assert taken(spool, after=1) == ["2-3", "four", "five"]
    assert SpoolReader(spool.directory).identity == spool.identity


def test_a_file_that_is_shortened_again_and_again_costs_each_time_its_own(spool: Spool) -> None:
    for round_ in range(3):
        append(spool, f"kept {round_}", f"cut {round_}")
        shorten(spool, by=1)
        assert spool.mend(0).endswith("; 1 unconfirmed records are gone")
    append(spool, "last")
    assert taken(spool) == ["kept 0", "2-2", "kept 1", "4-4", "kept 2", "6-6", "last"]


def test_a_full_file_that_is_shortened_later_costs_what_was_cut(tmp_path: Path) -> None:
    identity = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)
    spool = Spool(tmp_path / "spool", identity, Losses(), segment_bytes=400)
    try:
        append(spool, *(f"{n}" * 50 for n in range(8)))
        first = spool.files._segments[0]
        assert first is not spool.files.current
        os.truncate(first.path, first.size_bytes - 1)
        lost = first.last
        assert spool.mend(0).endswith("; 1 unconfirmed records are gone")
        assert taken(spool)[lost - 1] == f"{lost}-{lost}"
        assert len(taken(spool)) == 8
    finally:
        spool.close(remove=True)


def test_nothing_is_passed_over_before_it_was_looked_for(spool: Spool) -> None:
    append(spool, "one", "two")
    shorten(spool, by=1)
    with pytest.raises(OSError, match="shortened"):
        spool.files.take(0, 2, 10**6)


def test_the_shipper_mends_it_and_says_so_once(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    publisher.log({"a": 1.0}, iteration=1)
    (path,) = Path(publisher.identity.spool_path).glob("spool-*")
    os.truncate(path, path.stat().st_size - 1)
    for k in range(2, 5):
        publisher.log({"a": float(k)}, iteration=k)
    until(lambda: of_kind(publisher, RecordKind.EVENT))
    with pytest.warns(RuntimeWarning, match="unsent"):
        assert not publisher.close(0)
    (event,) = of_kind(publisher, RecordKind.EVENT)
    assert "shortened" in event.text
    assert event.text.endswith("; 1 unconfirmed records are gone")
    assert len(of_kind(publisher, RecordKind.ITERATION)) == 3
