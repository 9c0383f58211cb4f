"""Pipes, devices, directories and symlinks with the names of a run's files: no viewer waits for
them, and what is said of them is in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from history_files import Segments, update

from unilab_metrics.errors import (
    DamagedFileError,
    ExitCode,
    IrregularFileError,
    NoLiveRunError,
    RunNotFoundError,
)
from unilab_metrics.storage.block_files import BlockFiles
from unilab_metrics.storage.bounded_reading import open_regular, read_end, read_regular
from unilab_metrics.subscribe.abandoned import find_abandoned
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.subscribe.replay import Replay
from unilab_metrics.subscribe.small_files import read_small
from unilab_metrics.subscribe.unread_history import refuse_unread
from unilab_sidecar.feeding.summary_file import read_summary
from unilab_sidecar.looking.saved_view import Saved, load_saved

ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "symlink to a device": lambda path: path.symlink_to("/dev/zero"),
    "symlink to itself": lambda path: path.symlink_to(path.name),
}
odd = pytest.mark.parametrize("make", ODD.values(), ids=ODD)


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    made = tmp_path / "run" / "bus"
    made.mkdir(parents=True)
    return made


@odd
def test_no_part_of_it_is_read_and_the_error_is_of_both_kinds(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises(IrregularFileError, match=f"{path}: is (no regular file|a symlink)") as odd:
        read_end(path, 100)
    assert odd.value.exit_code == ExitCode.DAMAGED
    assert isinstance(odd.value, OSError)
    assert odd.value.errno
    assert odd.value.strerror == odd.value.reason
    with pytest.raises(OSError, match=r"no regular file|symbolic links"):
        read_regular(path, 100)
    with pytest.raises(OSError, match=r"no regular file|symbolic links"):
        os.close(open_regular(path))
    assert read_small(path, 100) is None


@odd
def test_a_history_that_is_none_is_refused_in_words(
    make: Callable[[Path], object], bus: Path
) -> None:
    make(bus / "history-000001-000000")
    with pytest.raises(IrregularFileError, match="history-000001-000000"):
        Replay(bus.parent)
    with HistoryReader(bus) as reader, pytest.raises(IrregularFileError):
        reader.poll()


@odd
def test_blocks_that_cannot_be_read_are_passed_over(
    make: Callable[[Path], object], bus: Path
) -> None:
    make(bus / "blocks-000001-000000")
    files = BlockFiles(bus)
    files.look()
    assert files.read((), 0, budget_s=1.0).complete
    written = Segments(bus)
    written.append(written.start(), *(update(number) for number in range(1, 30)))
    played = Replay(bus.parent, is_still=True)
    assert played.head.update == 29
    played.close()


@odd
def test_a_summary_and_a_saved_view_that_are_none_count_as_none(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "run_summary.json")
    assert read_summary(tmp_path, 1) is None
    state = tmp_path / "unilab-metrics"
    state.mkdir()
    make(state / "sidecar.json")
    assert load_saved({"XDG_STATE_HOME": str(tmp_path)}) == Saved()


def test_a_saved_view_that_is_nested_too_deeply_counts_as_none(tmp_path: Path) -> None:
    state = tmp_path / "unilab-metrics"
    state.mkdir()
    (state / "sidecar.json").write_text("[" * 60_000)
    assert load_saved({"XDG_STATE_HOME": str(tmp_path)}) == Saved()


@pytest.mark.parametrize("content", [b"hello\n" * 10_000, b"UMR", b"\0" * 5000])
def test_replay_and_attach_say_the_same_of_a_history_of_which_nothing_can_be_read(
    content: bytes, bus: Path
) -> None:
    (bus / "history-000001-000000").write_bytes(content)
    with pytest.raises(DamagedFileError) as replayed:
        Replay(bus.parent)
    with pytest.raises(DamagedFileError) as attached:
        refuse_unread(bus.parent)
    assert str(attached.value) == str(replayed.value)


@pytest.mark.parametrize("files", [(), (b"",), (b"", b"")])
def test_replay_and_attach_call_a_run_without_a_byte_of_history_cut_off(
    files: tuple[bytes, ...], bus: Path
) -> None:
    (bus / "wal-000001-000000").write_bytes(b"")
    (bus / "settings.json").write_bytes(b"{}")
    (bus / "settings.json").chmod(0o600)
    for number, content in enumerate(files):
        (bus / f"history-000001-{number:06d}").write_bytes(content)
    assert find_abandoned(bus.parent) is not None
    refuse_unread(bus.parent)
    with pytest.raises(NoLiveRunError, match="recover"):
        Replay(bus.parent)


def test_a_run_whose_history_nobody_has_begun_yet_is_none_to_replay(bus: Path) -> None:
    with pytest.raises(RunNotFoundError, match="nothing of its history"):
        Replay(bus.parent)


def test_a_history_of_which_a_part_can_be_read_is_not_refused(bus: Path) -> None:
    refuse_unread(bus.parent)
    written = Segments(bus)
    first = written.start()
    refuse_unread(bus.parent)
    written.append(first, update(1), b"hello")
    refuse_unread(bus.parent)
    (bus / "history-000001-000001").write_bytes(b"")
    refuse_unread(bus.parent)
    (bus / "history-000001-000001").write_bytes(b"hello\n" * 1000)
    refuse_unread(bus.parent)
