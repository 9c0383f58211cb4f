"""Appending, and what happens when there is no room; names and headers of segments."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from unilab_metrics.errors import (
    DamagedFileError,
    ExitCode,
    StorageFullError,
    UnknownVersionError,
)
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    SegmentHeader,
    SegmentWriter,
    encode_segment_header,
    list_segments,
    open_segment,
    parse_segment_name,
    read_at,
    read_segment_header,
    segment_name,
)
from unilab_schema.control import Epoch

HEADER = SegmentHeader(1, "history", Epoch(b"j" * 16, 3), 4, "history-000002-000001", 4711)


@pytest.fixture
def writer(tmp_path: Path):
    made = SegmentWriter.create(tmp_path / "wal-000001-000000")
    yield made
    made.close()


def test_appended_bytes_lie_at_the_returned_offsets(writer: SegmentWriter):
    assert [writer.append(data) for data in (b"abc", b"", b"defg")] == [0, 3, 3]
    assert writer.size_bytes == 7
    assert writer.path.read_bytes() == b"abcdefg"
    writer.fdatasync()


def test_a_segment_is_private_whatever_the_umask_is(tmp_path: Path):
    before = os.umask(0)
    try:
        made = SegmentWriter.create(tmp_path / "s")
    finally:
        os.umask(before)
    made.close()
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600


def test_an_existing_segment_or_a_symlink_is_never_written(tmp_path: Path):
    (tmp_path / "there").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            SegmentWriter.create(tmp_path / name)
    assert (tmp_path / "there").read_bytes() == b"kept"
    assert not (tmp_path / "elsewhere").exists()


def test_closing_twice_is_fine(writer: SegmentWriter):
    writer.close()
    writer.close()
    assert writer.closed


def test_a_short_write_is_taken_back(writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch):
    writer.append(b"kept")
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
        with pytest.raises(StorageFullError) as caught:
            writer.append(b"too long")
    assert caught.value.wanted_bytes == 8
    assert writer.path.read_bytes() == b"kept"
    assert writer.append(b"again") == 4
    assert writer.path.read_bytes() == b"keptagain"


def test_a_full_disk_is_its_own_error_and_an_io_error_is_not(
    writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
):
    def fail(number: int):
        def write(fd: int, data: bytes) -> int:
            raise OSError(number, os.strerror(number))

        return write

    for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail(number))
            with pytest.raises(StorageFullError) as caught:
                writer.append(b"x")
        assert caught.value.error_number == number
        is_limit = number == errno.EFBIG
        assert ("ulimit -f" in str(caught.value), "no room" in str(caught.value)) == (
            is_limit,
            not is_limit,
        )
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail(errno.EIO))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            writer.append(b"x")
    assert writer.append(b"works again") == 0


_LIMITED = """
import resource, sys
from pathlib import Path
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.segments import SegmentWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
writer = SegmentWriter.create(Path(sys.argv[1]))
writer.append(b"a" * 900)
for size in (200, 150):
    try:
        writer.append(b"b" * size)
    except StorageFullError as error:
        assert "ulimit -f" in str(error), error
        print(writer.path.stat().st_size)
print(writer.append(b"c" * 100), writer.path.stat().st_size)
"""


def test_a_file_size_limit_tears_nothing(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "s")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["900", "900", "900", "1000"]


def test_names_sort_in_the_order_of_writing(tmp_path: Path):
    names = [
        segment_name("wal", *numbers)
        for numbers in [(1, 0), (1, 9), (1, 10), (2, 0), (999_999, 3), (1_000_000, 0)]
    ]
    for name in [*reversed(names), "wal-1-2", "history-000001-000000", "wal.json", ".wal-000001"]:
        (tmp_path / name).touch()
    assert [path.name for path in list_segments(tmp_path, "wal")] == names
    assert parse_segment_name(names[1]) == ("wal", 1, 9)
    assert parse_segment_name("bus.json") is None
    assert list_segments(tmp_path / "missing", "wal") == []


def test_reading_at_an_offset_ends_at_the_end(writer: SegmentWriter):
    writer.append(b"0123456789")
    fd = open_segment(writer.path)
    try:
        assert read_at(fd, 2, 3) == b"234"
        assert read_at(fd, 8, 100) == b"89"
        assert read_at(fd, 10, 100) == b""
    finally:
        os.close(fd)


def test_a_header_is_read_back(writer: SegmentWriter):
    writer.append(encode_segment_header(HEADER) + encode_record(33, 1, b"x"))
    assert read_segment_header(writer.path) == HEADER


def test_a_header_that_is_not_complete_yet_is_none(tmp_path: Path):
    whole = encode_segment_header(HEADER)
    for cut in range(len(whole)):
        (tmp_path / "s").write_bytes(whole[:cut])
        assert read_segment_header(tmp_path / "s") is None, cut


def test_a_damaged_header_is_refused(tmp_path: Path):
    whole = bytearray(encode_segment_header(HEADER))
    whole[30] ^= 1
    path = tmp_path / "s"
    for content in (bytes(whole), encode_record(33, 1, b"x"), b"garbage that is no record at all"):
        path.write_bytes(content)
        with pytest.raises(DamagedFileError) as caught:
            read_segment_header(path)
        assert caught.value.exit_code == ExitCode.DAMAGED


def test_a_later_version_of_header_or_record_is_refused(tmp_path: Path):
    path = tmp_path / "s"
    later_header = encode_record(KIND_SEGMENT_HEADER, 0, b"\x92\x02\xc0")
    record = encode_segment_header(HEADER)
    checked, payload = b"um\x02" + record[3:16], record[20:]
    checksum = crc32(payload, crc32(checked)).to_bytes(4, "little")
    later_record = checked + checksum + payload
    for content in (later_header, later_record):
        path.write_bytes(content)
        with pytest.raises(UnknownVersionError) as caught:
            read_segment_header(path)
        assert (caught.value.found, caught.value.known) == (2, 1)
        assert caught.value.exit_code == ExitCode.DAMAGED


def test_a_version_that_only_a_flipped_bit_names_is_damage_and_no_version(tmp_path: Path):
    (tmp_path / "s").write_bytes(b"um\x03" + encode_segment_header(HEADER)[3:])
    with pytest.raises(DamagedFileError):
        read_segment_header(tmp_path / "s")


def test_a_header_with_appended_fields_is_read(tmp_path: Path):
    payload = bytes(scan(encode_segment_header(HEADER)).records[0].payload)
    longer = bytes([payload[0] + 1]) + payload[1:] + b"\x2a"
    (tmp_path / "s").write_bytes(encode_record(KIND_SEGMENT_HEADER, 0, longer))
    assert read_segment_header(tmp_path / "s") == HEADER
