"""Whatever happens to the bytes, a scan returns only what was written, and finds the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.storage.records import encode_record, scan

payloads = st.one_of(st.binary(max_size=200), st.sampled_from([b"um\x01", b"um" * 20, bytes(40)]))


def _encode(items: list[tuple[int, bytes]]) -> list[bytes]:
    return [encode_record(kind, i + 1, payload) for i, (kind, payload) in enumerate(items)]


written = st.lists(st.tuples(st.integers(0, 255), payloads), max_size=12).map(_encode)


@given(written)
def test_what_was_written_comes_back(records: list[bytes]):
    result = scan(b"".join(records))
    assert [r.sequence for r in result.records] == list(range(1, len(records) + 1))
    assert not result.damaged
    assert not result.tail_reason


@given(written, st.data())
def test_a_cut_anywhere_leaves_the_whole_records_before_it(
    records: list[bytes], data: st.DataObject
):
    buffer = b"".join(records)
    cut = data.draw(st.integers(0, len(buffer)))
    result = scan(buffer[:cut])
    count = len(result.records)
    assert sum(map(len, records[:count])) == result.valid_bytes
    assert count == len(records) or result.valid_bytes + len(records[count]) > cut
    assert not result.damaged


@given(written, st.data())
def test_overwritten_bytes_never_invent_or_change_a_record(
    records: list[bytes], data: st.DataObject
):
    buffer = bytearray(b"".join(records))
    noise = data.draw(st.binary(min_size=1, max_size=60))
    at = data.draw(st.integers(0, max(0, len(buffer) - 1)))
    buffer[at : at + len(noise)] = noise
    result = scan(buffer)
    for record in result.records:
        assert bytes(buffer[record.start : record.end]) in records
    covered = sorted([(r.start, r.end) for r in result.records] + [d[:2] for d in result.damaged])
    assert [start for start, _ in covered] == [0, *(end for _, end in covered)][: len(covered)]
    start = 0
    for record in records:
        end = start + len(record)
        if end <= at or start >= at + len(noise):
            assert any(r.start == start for r in result.records)
        start = end


@given(st.binary(max_size=2000))
def test_noise_never_raises(noise: bytes):
    result = scan(noise)
    assert result.valid_bytes <= len(noise)


@given(written, st.integers(1, 64))
def test_reading_in_chunks_finds_the_same_records(records: list[bytes], chunk: int):
    buffer = b"".join(records)
    offset, size = 0, chunk
    found: list[int] = []
    while offset < len(buffer):
        data = buffer[offset : offset + size]
        at_end = offset + len(data) == len(buffer)
        result = scan(data, complete=at_end)
        if not result.records:
            assert not at_end
            size *= 2
            continue
        found += [r.sequence for r in result.records]
        offset += result.valid_bytes
        size = chunk
    assert found == list(range(1, len(records) + 1))
