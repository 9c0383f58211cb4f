"""What a spool did not keep is told once for each outage, whatever the spool does meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from unilab_metrics.publish.drop_report import _MAX_WARNINGS, QUIET_NS, DropReport
from unilab_metrics.publish.losses import KEY_REFUSED, SPOOL_QUOTA, Losses
from unilab_metrics.publish.spool import Spool
from unilab_metrics.storage.records import scan
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import Drops, End, EventFrame
from unilab_schema.identity import Identity, SourceKey


class Outage:
    """A spool of a few records, its report, and a clock that stands still."""

    def __init__(self, directory: Path) -> None:
        identity = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)
        self.losses = Losses()
        self.spool = Spool(directory, identity, self.losses, segment_bytes=2000, quota_bytes=6000)
        self.now_ns = 1
        self.report = DropReport(self.spool, self.losses, lambda: self.now_ns)
        self.read = 0
        self.seen: list[object] = []

    def log(self, times: int = 1) -> None:
        for _ in range(times):
            self.spool.append(
                RecordKind.EVENT,
                lambda mono, unix: encode_payload(EventFrame("status", "x" * 100, mono, unix)),
            )

    def fill(self) -> None:
        while not self.spool.trouble:
            self.log()
        self.log(9)

    def deliver(self, records: int | None = None) -> None:
        upto = self.spool.last if records is None else min(self.read + records, self.spool.last)
        while self.read < upto:
            batch = self.spool.files.take(self.read, upto, 10**6)
            self.read = batch.last
            for record in scan(batch.records).records:
                if record.sequence:
                    self.seen.append(decode_payload(record.kind, record.payload))
        self.spool.files.trim(self.read)
        self.spool.use_room(self.read)

    def warnings(self) -> list[str]:
        self.deliver()
        return [e.text for e in self.seen if isinstance(e, EventFrame) and e.kind == "warning"]


@pytest.fixture
def outage(tmp_path: Path) -> Iterator[Outage]:
    made = Outage(tmp_path / "spool")
    yield made
    made.spool.close(remove=True)


def test_an_outage_that_comes_again_while_the_spool_is_emptied_is_said_once(outage: Outage) -> None:
    for _ in range(5):
        outage.fill()
        outage.report.tell()
        # Room for some more: it takes records again, and is full again at once.
        outage.deliver(20)
        outage.log()
        assert not outage.spool.trouble
        outage.report.tell()
    outage.deliver()
    outage.report.tell(is_delivered=True)
    lost = outage.losses.counts[SPOOL_QUOTA]
    assert lost >= 50
    where = f"{outage.spool.directory}: the quota of this spool is used up"
    assert outage.warnings() == [f"{where}; {lost} records were not kept"]
    newest = [frame for frame in outage.seen if isinstance(frame, Drops)][-1]
    assert newest.counts == {SPOOL_QUOTA: lost}


def test_an_outage_is_over_too_when_nothing_was_refused_for_some_seconds(outage: Outage) -> None:
    outage.fill()
    outage.deliver(20)
    outage.log()
    outage.report.tell()
    outage.now_ns += QUIET_NS - 1
    outage.report.tell()
    assert outage.spool.last > outage.read
    outage.now_ns += 1
    outage.report.tell()
    assert len(outage.warnings()) == 1


def test_outages_without_end_are_said_a_few_times_and_the_rest_at_the_end(outage: Outage) -> None:
    for _ in range(2 * _MAX_WARNINGS):
        outage.fill()
        outage.deliver()
        outage.report.tell(is_delivered=True)
        outage.deliver()
    outage.report.tell(is_last=True)
    texts = outage.warnings()
    assert len(texts) == _MAX_WARNINGS + 1
    said = [int(text.split("; ")[1].split()[0]) for text in texts]
    assert sum(said) == outage.losses.counts[SPOOL_QUOTA]


def test_a_trouble_is_told_and_is_no_loss(outage: Outage) -> None:
    outage.losses.count(KEY_REFUSED)
    outage.report.tell(is_delivered=True)
    assert outage.warnings() == []
    assert outage.seen == [Drops({}, {KEY_REFUSED: 1})]
    assert (outage.losses.counts, outage.losses.troubles) == ({}, {KEY_REFUSED: 1})


@pytest.mark.parametrize("is_full", [True, False])
def test_an_outage_that_is_not_over_at_the_end_is_said_before_the_end(
    is_full: bool, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage.fill()
    outage.report.tell()
    if is_full:
        # Not even the end fits, which no quota holds up.
        with monkeypatch.context() as patch:
            patch.setattr("os.write", no_room)
            close(outage)
        assert outage.spool.end_waits
    else:
        close(outage)
    lost = outage.losses.counts[SPOOL_QUOTA]
    text = f"{outage.spool.directory}: the quota of this spool is used up; {lost} records were not kept"
    outage.deliver()
    outage.deliver()
    *_, warning, end = outage.seen
    assert isinstance(warning, EventFrame)
    assert (warning.kind, warning.text) == ("warning", text)
    assert end == End("completed", 0, 0, {SPOOL_QUOTA: lost})


def close(outage: Outage) -> None:
    outage.report.tell(is_last=True)
    outage.spool.append(
        RecordKind.END,
        lambda _mono, _unix: encode_payload(End("completed", 0, 0, outage.losses.counts)),
    )


def no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
