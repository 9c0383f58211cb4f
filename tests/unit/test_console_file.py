"""``console.log``: bounded, and on a full disk it drops and counts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.run.output.console_file import ConsoleFile
from unilab_metrics.run.output.output_queue import OutputQueue


def test_two_files_hold_at_most_twice_the_bound(tmp_path: Path) -> None:
    console = ConsoleFile(tmp_path, file_bytes=1000)
    lines = [f"line {number:04}\n".encode() for number in range(500)]
    for line in lines:
        console.append(line)
    console.close()
    kept = (tmp_path / EARLIER_CONSOLE_FILE).read_bytes() + (tmp_path / CONSOLE_FILE).read_bytes()
    assert len(kept) <= 2000
    assert b"".join(lines).endswith(kept)


def test_it_goes_on_where_an_earlier_attempt_has_ended(tmp_path: Path) -> None:
    (tmp_path / CONSOLE_FILE).write_bytes(b"before\n")
    console = ConsoleFile(tmp_path)
    console.append(b"after\n")
    console.close()
    assert (tmp_path / CONSOLE_FILE).read_bytes() == b"before\nafter\n"


def test_what_a_full_disk_cost_is_said_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, is_full, write = 0.0, True, os.write

    def limited(fd: int, data: bytes) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr("unilab_metrics.run.output.console_file.os.write", limited)
    console = ConsoleFile(tmp_path, clock=lambda: now_s)
    console.append(b"lost\n")
    is_full = False
    console.append(b"too soon\n")
    now_s = 2.0
    console.append(b"kept\n")
    console.close()
    assert (tmp_path / CONSOLE_FILE).read_text() == (
        "\n[unilab-metrics: 14 bytes of output are lost: No space left on device]\nkept\n"
    )


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_file_that_was_taken_away_is_followed_by_a_new_one(
    tmp_path: Path, is_removed: bool
) -> None:
    now_s = 0.0
    console = ConsoleFile(tmp_path, clock=lambda: now_s)
    console.append(b"before\n")
    (tmp_path / CONSOLE_FILE).rename(tmp_path / "mine.log")
    if is_removed:
        (tmp_path / "mine.log").unlink()
    now_s = 2.0
    console.append(b"after\n")
    console.close()
    assert (tmp_path / CONSOLE_FILE).read_bytes() == b"after\n"
    assert is_removed or (tmp_path / "mine.log").read_bytes() == b"before\n"


def test_a_directory_that_is_not_there_costs_the_output_only(tmp_path: Path) -> None:
    console = ConsoleFile(tmp_path / "missing")
    console.append(b"one\n")
    console.append(b"two\n")
    console.close()
    assert not (tmp_path / "missing").exists()


def test_a_queue_that_nobody_empties_drops_and_counts() -> None:
    queue = OutputQueue(most_bytes=10)
    for _ in range(5):
        queue.put(b"12345", "there")
    queue.end()
    taken = [queue.take() for _ in range(3)]
    assert [item and (item.data, item.lost_bytes) for item in taken] == [
        (b"12345", 0), (b"12345", 0), (b"", 15),
    ]  # fmt: skip
    assert queue.take() is None


def test_a_queue_without_anybody_at_its_end_forgets() -> None:
    queue = OutputQueue(most_bytes=10)
    queue.put(b"12345", "")
    queue.close()
    queue.put(b"123456789", "", wait=True)
    assert queue.take() is None
