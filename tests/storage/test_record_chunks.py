"""A long file in parts: the same records as in one piece, whatever is damaged."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from long_history import LongHistory

from unilab_metrics.storage.record_chunks import CHUNK_BYTES, chunks
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.subscribe import files
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.updates import AttemptOpened, Update


def in_parts(
    path: Path, *, chunk_bytes: int = CHUNK_BYTES, limit: int | None = None
) -> list[tuple[int, int]]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return [
            (chunk.begin + record.start, record.sequence)
            for chunk in chunks(fd, limit=limit, chunk_bytes=chunk_bytes)
            for record in chunk.found.records
        ]
    finally:
        os.close(fd)


@pytest.mark.parametrize("seed", range(20))
def test_parts_hold_what_the_whole_holds(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray()
    for sequence in range(1, 60):
        data += encode_record(33, sequence, rng.randbytes(rng.choice([0, 10, 500, 9000])))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    if seed % 3 == 0:
        del data[-rng.randrange(1, 30) :]
    path = tmp_path / "file"
    path.write_bytes(data)
    whole = [(record.start, record.sequence) for record in scan(bytes(data)).records]
    for chunk_bytes in (64, 1000, 20_000, 10_000_000):
        assert in_parts(path, chunk_bytes=chunk_bytes) == whole
    half = len(data) // 2
    limited = [(r.start, r.sequence) for r in scan(bytes(data[:half])).records]
    assert in_parts(path, chunk_bytes=1000, limit=half) == limited


def test_an_empty_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert in_parts(path) == []


def test_a_long_ended_run_is_joined_by_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = LongHistory(tmp_path / "run", segment_bytes=60_000)
    made.updates(2000)
    made.end()
    made.write()
    size = sum(path.stat().st_size for path in made.bus_dir.glob("history-*"))
    for wanted in (20_000, 60_000, 100_000):
        monkeypatch.setattr(files, "RECENT_BYTES", wanted)
        with Subscriber.attach(made.run_dir) as subscriber:
            entries = []
            while found := subscriber.poll(0):
                entries += found
        assert isinstance(entries[0].entry, AttemptOpened)
        sequences = [one.sequence for one in entries[1:]]
        assert sequences == list(range(sequences[0], 2003))
        updates = sum(isinstance(one.entry, Update) for one in entries)
        assert updates == pytest.approx(2000 * wanted / size, rel=0.1)
    # What is not more than twice as long is read as a whole.
    monkeypatch.setattr(files, "RECENT_BYTES", size // 2 + 1)
    with Subscriber.attach(made.run_dir) as subscriber:
        assert subscriber.poll(0)[0].sequence == 1
        assert subscriber.poll(0)[0].sequence == 1001
