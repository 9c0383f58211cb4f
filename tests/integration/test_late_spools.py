"""A process whose spool cannot be made: the run knows of it, and it goes on when that works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from receiving_end import ReceivingEnd
from spooled import spooled_publisher, values_of

from unilab_metrics.publish import late_spool, losses
from unilab_metrics.publish.late_spool import MAX_SAID_BYTES, LateSpool
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.opening import new_identity
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.frames import Drops, EventFrame
from unilab_schema.identity import RunInfo, SourceKey


def blocked(directory: Path) -> Path:
    place = directory / "launch"
    place.write_text("a file where a directory should be")
    return place


@pytest.fixture
def late(tmp_path: Path) -> Iterator[LateSpool]:
    identity = new_identity(SourceKey(1, "learner"), RunInfo("sac"), tmp_path / "launch", 1, "")

    def make() -> tuple[int, int]:
        (tmp_path / "launch").mkdir(mode=0o700, exist_ok=True)
        return 65536, 2**20

    spool = LateSpool(identity, Losses(), make, "no room")
    yield spool
    spool.close(remove=True)


def say(spool: LateSpool, text: str) -> bool:
    payload = encode_payload(EventFrame("status", text, 0, 0))
    return spool.append(RecordKind.EVENT, lambda _mono, _unix: payload)


def test_it_is_tried_again_ever_more_seldom(late: LateSpool, tmp_path: Path) -> None:
    blocked(tmp_path)
    tries: list[int] = []
    made = late._make_place
    late._make_place = lambda: tries.append(now) or made()
    for second in range(1, 62):
        now = second * 1_000_000_000
        late.try_again(now)
    assert [n // 1_000_000_000 for n in tries] == [2, 4, 8, 16, 31, 46, 61]
    assert late.inactive == losses.UNAVAILABLE


@pytest.mark.filterwarnings("ignore:metrics of this process")
def test_what_is_said_once_goes_before_what_is_logged_when_it_works(late: LateSpool) -> None:
    assert say(late, "early")
    assert not late.append(RecordKind.ITERATION, lambda _mono, _unix: b"")
    assert late.losses.counts == {losses.UNAVAILABLE: 1}
    late.try_again(1)
    assert late.inactive
    late.try_again(late_spool.RETRY_NS + 1)
    assert not late.inactive
    assert say(late, "late")
    early, rest = late.files.take(0, 1, 10**6), late.files.take(1, 2, 10**6)
    assert (early.last, rest.last) == (1, 2)
    assert b"early" in early.records
    assert b"late" in rest.records
    late.files.trim(1)
    assert late.files.first == 2
    assert late._lease is not None
    assert late._lease.is_intact


@pytest.mark.filterwarnings("ignore:metrics of this process")
def test_what_waits_in_memory_is_bounded(late: LateSpool) -> None:
    while say(late, "x" * 10_000):
        assert late.last < 1000
    assert late.files.current.size_bytes < MAX_SAID_BYTES + 20_000
    assert late.losses.counts == {losses.UNAVAILABLE: 1}
    assert late.append(RecordKind.END, lambda _mono, _unix: b"")


def test_nothing_is_left_of_one_that_never_was(late: LateSpool) -> None:
    late.directory.mkdir(parents=True)
    late.close(remove=False)
    assert not late.directory.exists()
    assert late.inactive == losses.CLOSED


@pytest.mark.filterwarnings("ignore:metrics of this process")
def test_the_run_learns_of_it_and_of_what_it_costs(tmp_path: Path, short_path: Path) -> None:
    blocked(tmp_path)
    end = ReceivingEnd(short_path)
    try:
        publisher = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
        for k in range(5):
            publisher.log({"a": 1.0}, iteration=k)
        publisher.define_metric("b", over_ranks="sum")
        end.serve(lambda: end.batches and end.batches[-1].drops == {losses.UNAVAILABLE: 5})
        assert end.hellos[0].identity.key.rank == 1
        end.serve(lambda: end.cursor == 2)
        closing = threading.Thread(target=publisher.close, args=(20,))
        closing.start()
        end.serve(lambda: not closing.is_alive())
        closing.join()
        assert publisher.close()
    finally:
        end.close()
    said, defined, drops, warned, goodbye = [payload for _, _, payload in end.payloads]
    assert "metrics of the learner of rank 1 are not logged" in said.text
    assert "is tried again" in said.text
    assert defined.spec.tag == "b"
    assert drops.counts == goodbye.drops == {losses.UNAVAILABLE: 5}
    assert warned.text.endswith("; 5 records were not kept")
    assert publisher.dropped == {losses.UNAVAILABLE: 5}


@pytest.mark.filterwarnings("ignore:metrics of this process")
def test_it_goes_on_in_files_as_soon_as_there_is_a_place(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_spool, "RETRY_NS", 1)
    place = blocked(tmp_path)
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(tmp_path, find_bus=end.find_bus)
    try:
        publisher.log({"a": 1.0}, iteration=1)
        place.unlink()
        end.serve(lambda: not publisher._spool.inactive)
        publisher.log({"a": 2.0}, iteration=2)
        assert values_of(publisher) == [{"a": 2.0}]
        end.serve(lambda: end.cursor >= publisher._spool.last)
        assert end.frames()[-1].iteration == 2
        end.serve(lambda: Drops({losses.UNAVAILABLE: 1}) in [p for _, _, p in end.payloads])
        assert Path(publisher.identity.lease_path).is_file()
    finally:
        publisher.close(0)
        end.close()


def test_one_that_nobody_can_be_told_of_says_so_at_the_end(tmp_path: Path) -> None:
    blocked(tmp_path)
    publisher = spooled_publisher(tmp_path)
    with pytest.warns(RuntimeWarning, match="metrics of this process are not logged"):
        publisher.log({"a": 1.0}, iteration=1)
    with pytest.warns(RuntimeWarning, match="1 call of this process was not logged .*no aggr"):
        assert not publisher.close(0)
