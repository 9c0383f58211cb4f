"""Records of the same length are passed over all at once: nothing is found but what a walk from one
to the next finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from unilab_metrics.storage import segment_map
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segment_map import SegmentMap

LAYOUT, UPDATE, EVENT = 33, 32, 34
KINDS = frozenset([LAYOUT, UPDATE, EVENT])


def _records(rng: random.Random) -> bytearray:
    """Long stretches of one length, with now and then something else in between."""
    made, sequence = bytearray(), 0
    for _ in range(rng.randrange(1, 8)):
        size, kind = rng.randrange(40), rng.choice([UPDATE, UPDATE, EVENT])
        for _ in range(rng.choice([1, 15, 16, 17, 40, 300])):
            sequence += rng.choice([1, 1, 1, 1, 1, 1, 1, 3])
            made += encode_record(kind, sequence, bytes(size))
            if rng.random() < 0.005:
                made += encode_record(LAYOUT, 0, bytes(size))
            if rng.random() < 0.003:
                # Somebody gives sequences anew.
                sequence = max(sequence - rng.randrange(20), 0)
    if rng.random() < 0.3:
        at = rng.randrange(len(made))
        made[at] ^= 1 << rng.randrange(8)
    if rng.random() < 0.3:
        del made[-rng.randrange(1, 30) :]
    return made


def _walked(path: Path, limit: int | None, steps: list[int]) -> list[object]:
    found = SegmentMap(path, kinds=KINDS, kept_kind=LAYOUT, limit=limit)
    offsets = [found.first(), *(found.seek(step) for step in steps), found.seek(1 << 62)]
    return [offsets, found.kept, found._marks, found._walked, found._last, found._is_damaged]


@pytest.mark.parametrize("seed", range(120))
def test_a_walk_in_leaps_finds_what_single_steps_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    data = _records(rng)
    path = tmp_path / "segment"
    path.write_bytes(data)
    monkeypatch.setattr(segment_map, "_EVERY_BYTES", rng.choice([1, 100, 1000, 5000]))
    monkeypatch.setattr(segment_map, "_CHUNK_BYTES", rng.choice([500, 5000, 1 << 20]))
    limit = rng.choice([None, rng.randrange(len(data) + 1)])
    steps = sorted(rng.randrange(1, 1500) for _ in range(5))
    in_leaps = _walked(path, limit, steps)
    monkeypatch.setattr(segment_map, "_ALIKE", 1 << 60)
    assert in_leaps == _walked(path, limit, steps)


def test_sequences_that_are_given_anew_where_a_leap_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_map, "_EVERY_BYTES", 1)
    path = tmp_path / "segment"
    for first in range(10, 20):
        sequences = [*range(1, first + 1), *range(5, 200)]
        path.write_bytes(b"".join(encode_record(UPDATE, n, bytes(9)) for n in sequences))
        marks = _walked(path, None, [])[2]
        assert isinstance(marks, list)
        assert [mark.sequence for mark in marks] == list(range(1, 200))


def test_most_records_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"".join(encode_record(UPDATE, n, bytes(100)) for n in range(1, 5001)))
    leaps: list[int] = []
    leap = SegmentMap._note_alike

    def count(self: SegmentMap, *arguments: int) -> tuple[int, int]:
        passed, last = leap(self, *arguments)  # type: ignore[arg-type]
        leaps.append(passed // 120)
        return passed, last

    monkeypatch.setattr(SegmentMap, "_note_alike", count)
    assert SegmentMap(path, kinds=KINDS, kept_kind=LAYOUT).seek(1 << 62)
    assert sum(leaps) > 4950
    assert len(leaps) <= 2
