"""``verify`` finds what was removed, doubled, changed or forged, in every file of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from cut_off_run import end, log, newest, open_run_directory, rewrite, source, spools, whole_run

from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    Entry,
    EntryKind,
    GapFound,
    decode_entry,
    encode_entry,
)
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.run.verifying.verify_journal import DamagedWalError
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER
from unilab_metrics.subscribe.history import HISTORY_KINDS
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.event_records import frame
from unilab_metrics.write.backends.protos import Event
from unilab_schema.codec import RecordKind, decode_payload, encode_payload

WAL_KINDS = [KIND_SEGMENT_HEADER, *EntryKind]
ITERATIONS = 20


@pytest.fixture
def run(run_dir: Path) -> Path:
    assert whole_run(run_dir, ITERATIONS).is_complete
    return run_dir


def verify(run_dir: Path, *options: str, code: int = ExitCode.VERIFICATION_FAILED) -> str:
    done = CliRunner().invoke(commands, ["verify", str(run_dir), *options])
    assert done.exit_code == code, done.output
    return done.output


def change_wal(run_dir: Path, change: Callable[[Entry], list[Entry] | None]) -> None:
    def on_record(record: Record) -> list[tuple[int, int, bytes]] | None:
        if record.kind in {KIND_SEGMENT_HEADER, EntryKind.SNAPSHOT}:
            return None
        changed = change(decode_entry(record.kind, record.payload))
        if changed is None:
            return None
        pairs = [encode_entry(entry) for entry in changed]
        return [(kind, 0, payload) for kind, payload in pairs]

    rewrite(newest(bus_directory(run_dir), "wal"), WAL_KINDS, on_record)


def change_history(run_dir: Path, change: Callable[[Record], Any]) -> None:
    rewrite(newest(bus_directory(run_dir), "history"), HISTORY_KINDS, change)


def change_events(run_dir: Path, change: Callable[[Any], int]) -> None:
    """``change`` may change an event and says how often it is to stand in the file."""
    (path,) = own_files(run_dir)
    out: list[bytes] = []
    for record in read_records(path):
        event = Event.FromString(bytes(record.data))
        times = change(event)
        out += [frame(event.SerializeToString())] * times
    path.write_bytes(b"".join(out))


def is_point(event: Any, step: int) -> bool:
    return event.step == step and any(v.tag == "Loss/value" for v in event.summary.value)


def test_a_whole_run_passes_and_tells_its_sources(run: Path) -> None:
    verified = verify_run(run)
    assert verified.points_per_tag["Loss/value"] == ITERATIONS
    journal = verified.journal
    assert journal is not None
    (only,) = journal.sources
    assert (only.goodbye, only.lost, only.drops, only.waiting) == (True, 0, {}, None)
    assert journal.refolded == journal.updates == verified.history.entries
    report = json.loads(verify(run, "--json", code=ExitCode.OK))
    assert report["ok"]
    assert report["status"] == "completed"
    assert report["attempts"] == [{"attempt": 1, "iterations": ITERATIONS, "ended": "completed"}]
    assert report["backends"][0]["update"] == report["entries"]
    assert report["sources"][0]["journaled"] >= ITERATIONS
    assert "updates made again, equal to the history" in verify(run, code=ExitCode.OK)


def test_a_removed_point(run: Path) -> None:
    change_events(run, lambda event: 0 if is_point(event, 7) else 1)
    assert "has point" in verify(run) or "the history has" in verify(run)


def test_a_doubled_point(run: Path) -> None:
    change_events(run, lambda event: 2 if is_point(event, 7) else 1)
    assert "tensorboard has Loss/value at step 7" in verify(run)


def test_a_changed_value(run: Path) -> None:
    def change(event: Any) -> int:
        if is_point(event, 7):
            event.summary.value[0].simple_value = 2.5
        return 1

    change_events(run, change)
    assert "= 2.5" in verify(run)


def test_a_difference_as_json(run: Path) -> None:
    change_events(run, lambda event: 2 if is_point(event, 7) else 1)
    report = json.loads(verify(run, "--json"))
    assert report["ok"] is False
    assert "step 7" in report["problem"]


def test_a_missing_update(run: Path) -> None:
    change_history(run, lambda record: () if record.sequence == 5 else None)
    assert "has entry 4 and then 6" in verify(run)


def test_an_end_of_the_history_that_is_missing(run: Path) -> None:
    change_history(run, lambda record: () if record.sequence > 10 else None)
    for path in own_files(run):
        path.unlink()
    assert "the wal gives update 11, which the history lacks" in verify(run)


def test_an_update_that_is_not_what_the_frames_give(run: Path) -> None:
    def change(record: Record) -> Any:
        if record.kind != RecordKind.UPDATE or record.sequence != 5:
            return None
        update = msgspec.structs.replace(
            decode_payload(record.kind, record.payload), elapsed_s=1234.5
        )
        return [(record.kind, record.sequence, encode_payload(update))]

    change_history(run, change)
    assert "update 5: the wal gives another Update of iteration" in verify(run)


def test_an_update_too_many(run: Path) -> None:
    def change(record: Record) -> Any:
        if record.kind != RecordKind.RUN_ENDED:
            return None
        payload = bytes(record.payload)
        return [(record.kind, record.sequence + extra, payload) for extra in (0, 1)]

    change_history(run, change)
    for path in own_files(run):
        path.unlink()
    assert verify(run).startswith("unilab-metrics: tensorboard lacks")


def test_a_gap_that_names_records_lost_which_are_there(run: Path) -> None:
    change_wal(
        run,
        lambda entry: (
            [entry, GapFound(0, 3, 5, "forged")] if isinstance(entry, AcceptedBatch) else None
        ),
    )
    assert "records 3 to 5 of the learner of rank 0" in verify(run)


def test_a_gap_that_the_summary_does_not_know(run: Path) -> None:
    seen = 0

    def change(entry: Entry) -> list[Entry] | None:
        nonlocal seen
        seen += 1
        if isinstance(entry, AcceptedBatch):
            last = verify_run_cursor(run)
            return [entry, GapFound(0, last + 1, last + 3, "forged")]
        return None

    change_wal(run, change)
    assert seen
    output = verify(run)
    assert "the summary says that 0 frames of the learner of rank 0 are lost" in output
    assert "the journal says 3" in output


def verify_run_cursor(run: Path) -> int:
    journal = verify_run(run).journal
    assert journal is not None
    return journal.sources[0].journaled + journal.sources[0].lost


def test_a_batch_that_was_journaled_twice(run: Path) -> None:
    change_wal(run, lambda entry: [entry, entry] if isinstance(entry, AcceptedBatch) else None)
    assert "record 1 of the learner of rank 0" in verify(run)


def test_a_batch_that_is_missing(run: Path) -> None:
    def change(entry: Entry) -> list[Entry] | None:
        if not isinstance(entry, AcceptedBatch):
            return None

        records = scan(entry.records).records
        kept = [entry.records[r.start : r.end] for r in records if r.sequence not in {4, 5}]
        return [msgspec.structs.replace(entry, records=b"".join(kept))]

    change_wal(run, change)
    assert "records 4 to 5 of the learner of rank 0" in verify(run)


def test_a_flipped_byte_in_the_wal_is_damage(run: Path) -> None:
    path = newest(bus_directory(run), "wal")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x20
    path.write_bytes(data)
    assert "the wal is damaged in 1 place" in verify(run, code=ExitCode.DAMAGED)


def test_records_that_wait_in_a_spool(run: Path) -> None:
    publisher = source(1, "collector")
    publisher.log({"reward/x": 1.0})
    end(publisher)
    output = verify(run)
    assert "3 records wait in" in output
    assert f"`unilab-metrics recover {run}`" in output


def test_a_live_process_may_have_records_that_wait(run: Path) -> None:
    publisher = source(1, "collector")
    publisher.log({"reward/x": 1.0})
    verify(run, code=ExitCode.OK)
    end(publisher)


def test_a_live_run_is_verified_as_far_as_it_has_come(run: Path) -> None:
    change_history(run, lambda record: () if record.sequence > 10 else None)
    for path in own_files(run):
        path.unlink()
    lease = Lease.create(bus_directory(run), AGGREGATOR_LEASE, b"")
    try:
        report = json.loads(verify(run, "--json", code=ExitCode.OK))
    finally:
        lease.release()
    assert (report["live"], report["entries"], report["refolded"]) == (True, 10, 10)


def test_a_run_without_its_wal_is_verified_without_it(run: Path) -> None:
    for path in bus_directory(run).glob("wal-*"):
        path.unlink()
    with pytest.raises(DamagedWalError, match="is gone"):
        verify_run(run)
    (bus_directory(run) / DURABLE_FILE).unlink()
    assert verify_run(run).journal is None
    assert "wal          none is left" in verify(run, code=ExitCode.OK)


def test_losses_are_told_by_reason(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(5))
    publisher.log({"Loss/value": 1.0}, iteration="no number")
    log(publisher, range(5, 9))
    end(publisher)
    (spool,) = spools()
    (segment,) = spool.glob("spool-*")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x20
    segment.write_bytes(data)
    recovery = recover_run(run_dir)
    assert [(t.lost, t.reasons) for t in recovery.taken] == [(1, ("not readable in the spool",))]
    output = verify(run_dir, code=ExitCode.OK)
    assert "1 lost (1 not readable in the spool)" in output
    assert "1 step not whole or beyond 2^50" in output
    assert "losses       1 frame lost" in output
