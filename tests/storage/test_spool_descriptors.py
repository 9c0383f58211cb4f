"""A training that closes the spool's descriptors, and opens files that get their numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_runs import until
from spooled import spooled_publisher

from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.spool import Spool
from unilab_metrics.storage.lease import is_free, owner_pid
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame
from unilab_schema.identity import Identity, SourceKey


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    identity = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)
    made = Spool(tmp_path / "spool", identity, Losses())
    yield made
    made.close(remove=False)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Makes a file of the training's have this number."""
    taken: list[int] = []

    def take(number: int) -> int:
        fd = os.open(tmp_path / f"theirs{number}", os.O_RDWR | os.O_CREAT, 0o600)
        os.write(fd, b"their own data")
        os.dup2(fd, number)
        os.close(fd)
        taken.append(number)
        return number

    yield take
    for number in taken:
        os.close(number)


def append(spool: Spool, text: str) -> bool:
    frame = EventFrame("status", text, 0, 0)
    return spool.append(RecordKind.EVENT, lambda _mono, _unix: encode_payload(frame))


def number_of(spool: Spool) -> int:
    return spool.files.current._fd


def texts(spool: Spool) -> list[str]:
    """What a later reader finds; a gap is ``...``."""
    return [
        decode_payload(r.kind, r.payload).text if r.kind == RecordKind.EVENT else "..."
        for batch in SpoolReader(spool.directory).batches()
        for r in scan(batch.records).records
        if r.sequence
    ]


def test_nothing_is_lost_when_the_file_is_found_again_before_the_next_record(
    spool: Spool, theirs: Callable[[int], int]
) -> None:
    append(spool, "one")
    number = theirs(number_of(spool))
    assert spool.reclaim(0).endswith("; 0 records were lost")
    assert spool.reclaim(0) == ""
    append(spool, "two")
    assert texts(spool) == ["one", "two"]
    assert os.pread(number, 100, 0) == b"their own data"


def test_what_went_into_another_file_is_a_gap_with_its_number(
    spool: Spool, theirs: Callable[[int], int]
) -> None:
    append(spool, "one")
    number = theirs(number_of(spool))
    append(spool, "two")
    append(spool, "three")
    size = os.fstat(number).st_size
    assert spool.reclaim(0).endswith("; 2 records were lost")
    append(spool, "four")
    assert texts(spool) == ["one", "...", "four"]
    batch = spool.files.take(1, 4, 10**6, verify=True)
    assert [r.sequence for r in scan(batch.records).records] == [3, 4]
    assert os.fstat(number).st_size == size
    # What comes next lies where it is looked for.
    batch = spool.files.take(3, 4, 10**6)
    assert [r.kind for r in scan(batch.records).records] == [RecordKind.EVENT]


def test_what_is_journaled_needs_no_file(spool: Spool, theirs: Callable[[int], int]) -> None:
    append(spool, "one")
    theirs(number_of(spool))
    append(spool, "two")
    assert spool.reclaim(2).endswith("; 0 records were lost")


def test_where_the_file_is_gone_a_new_segment_goes_on(
    spool: Spool, theirs: Callable[[int], int]
) -> None:
    append(spool, "one")
    spool.files.current.path.unlink()
    theirs(number_of(spool))
    assert spool.reclaim(0).endswith("; 1 record was lost")
    append(spool, "two")
    assert texts(spool) == ["...", "two"]
    batch = spool.files.take(0, 2, 10**6)
    assert [r.kind for r in scan(batch.records).records] == [RecordKind.GAP]


def test_a_failed_append_cuts_nothing_off_another_file(
    spool: Spool, theirs: Callable[[int], int]
) -> None:
    append(spool, "one")
    os.close(number_of(spool))
    assert not append(spool, "refused")
    number = theirs(number_of(spool))
    assert not append(spool, "refused too")
    assert os.pread(number, 100, 0) == b"their own data"
    spool.reclaim(0)
    append(spool, "two")
    assert texts(spool) == ["one", "two"]
    assert spool.losses.counts == {"spool_error": 2}


def test_a_lease_that_was_closed_is_taken_anew(spool: Spool, theirs: Callable[[int], int]) -> None:
    path = spool.directory / LEASE_NAME
    assert spool._lease is not None
    theirs(spool._lease._file.fd)
    assert spool.reclaim(0)
    assert owner_pid(path) == os.getpid()
    spool.close(remove=False)
    assert is_free(path)


def is_held(spool: Spool) -> bool:
    """By the lease of now: a lost one has a successor."""
    return spool._lease is not None and spool._lease.is_intact


def test_a_training_that_closes_all_of_ours_is_told_and_loses_nothing_later(
    tmp_path: Path,
) -> None:
    publisher: Publisher = spooled_publisher(tmp_path)
    publisher.log({"a": 0.0}, iteration=0)
    spool, lease = publisher._spool, publisher._spool._lease
    wakeup = publisher._shipper._wakeup if publisher._shipper else None
    assert wakeup is not None
    assert lease is not None
    for number in (number_of(spool), lease._file.fd, wakeup.fileno()):
        os.close(number)
    until(lambda: spool.files.is_ours and is_held(spool) and publisher.errors)
    publisher.log({"a": 1.0}, iteration=1)
    with pytest.warns(RuntimeWarning, match="unsent"):
        publisher.close(0.0)
    assert any("closed a descriptor that was not its own" in text for text in publisher.errors)
    records = [
        r
        for batch in SpoolReader(Path(publisher.identity.spool_path)).batches()
        for r in scan(batch.records).records
    ]
    warnings = [decode_payload(r.kind, r.payload) for r in records if r.kind == RecordKind.EVENT]
    assert len([w for w in warnings if w.kind == "warning"]) == 1
    assert len([r for r in records if r.kind == RecordKind.ITERATION]) == 2
