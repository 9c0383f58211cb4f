"""Names, modes and records of the event files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import (
    RawEventFileLoader,
)
from written_events import (
    marks,
    points,
    update,
    write,
)

from unilab_metrics.write.backends.event_files import next_name, own_files
from unilab_metrics.write.backends.event_records import frame, scan
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend


def test_a_name_is_never_earlier_than_the_newest(run_dir: Path) -> None:
    for clock_s in (1_700_000_100, 1_700_000_000, 5, 1_700_000_100):
        backend = TensorBoardBackend(run_dir, clock_unix_ns=lambda now=clock_s: now * 10**9)
        sequence = backend.open() + 1
        backend.write([update(sequence, sequence, {"v": float(sequence)})])
        backend.close()
    assert [step for step, _ in points(run_dir, "v")] == [1, 2, 3, 4]
    assert [path.name for path in own_files(run_dir)] == sorted(os.listdir(run_dir))


@pytest.mark.parametrize(
    "newest",
    [
        "events.out.tfevents.1700000000.zzzz.1.0",
        "events.out.tfevents.1699999999.host",
        "events.out.tfevents.1999999999.host.9.9.unilab",
        "events.out.tfevents.9999999998.host",
    ],
)
def test_a_name_sorts_behind_what_other_programs_wrote(newest: str) -> None:
    assert next_name([newest], 1_700_000_000) > newest


def test_names_made_in_one_second_differ() -> None:
    assert len({next_name([], 1_700_000_000) for _ in range(100)}) == 100


def test_files_of_other_programs_are_left_alone(run_dir: Path) -> None:
    foreign = run_dir / "events.out.tfevents.1900000000.host"
    foreign.write_bytes(b"not ours")
    write(run_dir, [update(1, 0, {"v": 0.0})])
    assert foreign.read_bytes() == b"not ours"
    assert own_files(run_dir)[0].name > foreign.name


def test_event_files_follow_the_umask(run_dir: Path) -> None:
    previous = os.umask(0o022)
    try:
        write(run_dir, [update(1, 0, {"v": 0.0})])
    finally:
        os.umask(previous)
    assert own_files(run_dir)[0].stat().st_mode & 0o777 == 0o644


def test_the_record_scan_stops_at_every_kind_of_damage() -> None:
    good = frame(b"abc") + frame(b"") + frame(b"d" * 1000)
    records, valid = scan(good)
    assert [bytes(record.data) for record in records] == [b"abc", b"", b"d" * 1000]
    assert valid == len(good)
    first = len(frame(b"abc"))
    for position in range(first):
        damaged = bytearray(good)
        damaged[position] ^= 1
        assert scan(bytes(damaged)) == ([], 0)
    assert scan(good[: first + 3])[1] == first


def test_tensorboard_reads_the_records(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(frame(b"one") + frame(b"two"))
    assert list(RawEventFileLoader(str(path)).Load()) == [b"one", b"two"]


def test_a_long_file_is_scanned_in_pieces(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unilab_metrics.write.backends.event_files._CHUNK_BYTES", 100)
    write(run_dir, *([update(n, n, {"v" * 50: 1.0})] for n in range(1, 50)))
    assert marks(run_dir) == list(range(1, 50))
