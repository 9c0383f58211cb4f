"""What lies in the event files, read back with tensorboard's own readers."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tensorboard.backend.event_processing import (
    plugin_event_accumulator,
)
from written_events import (
    LEARNER,
    accumulate,
    blob,
    marks,
    opened,
    point,
    points,
    raw_events,
    update,
    write,
)

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.backends import tensorboard as backend_module
from unilab_metrics.write.backends.base import BackendError
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.event_records import frame
from unilab_metrics.write.backends.images import ImageSize, image_size
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate


def test_an_update_is_one_event_with_exact_float32_values(run_dir: Path) -> None:
    values = {
        "a": 0.1, "b": 1 / 3, "c": -0.0, "d": float("nan"), "e": float("inf"), "f": 1e39,
        "g": 1e-46, "h": 16777217.0, "i": float("-inf"), "j": 0.0,
    }  # fmt: skip
    write(run_dir, [opened(1), update(2, 7, values), update(3, 8, values)])
    events = [event for event in raw_events(run_dir) if event.HasField("summary")]
    assert [event.step for event in events] == [7, 8]
    assert events[0].wall_time == pytest.approx(1_700_000_000.123456789, abs=1e-6)
    assert [value.tag for value in events[0].summary.value] == list(values)
    with np.errstate(over="ignore"):
        expected = np.array(list(values.values())).astype(np.float32)
    read = accumulate(run_dir)
    got = np.array([read.Scalars(tag)[0].value for tag in values], dtype=np.float64)
    np.testing.assert_array_equal(got.astype(np.float32), expected)
    assert np.signbit(got[2])


def test_marks_neither_purge_nor_add_tags(run_dir: Path) -> None:
    write(run_dir, *([update(n, n, {"a": 1.0})] for n in range(1, 6)))
    assert marks(run_dir) == [1, 2, 3, 4, 5]
    tags = accumulate(run_dir).Tags()
    assert tags["scalars"] == ["a"]
    assert [tags[kind] for kind in ("images", "tensors", "histograms")] == [[], [], []]
    assert points(run_dir, "a") == [(n, 1.0) for n in range(1, 6)]
    assert _plugin_steps(run_dir, "a") == [1, 2, 3, 4, 5]
    sessions = [event for event in raw_events(run_dir) if event.HasField("session_log")]
    assert [event.session_log.msg for event in sessions] == [f"u={n}" for n in range(1, 6)]
    assert {event.session_log.status for event in sessions} == {0}


def test_the_first_record_says_the_file_version(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"a": 1.0})])
    assert next(iter(raw_events(run_dir))).file_version == "brain.Event:2"


def test_a_backend_that_gets_nothing_makes_no_file(run_dir: Path) -> None:
    write(run_dir, [])
    assert os.listdir(run_dir) == []


def test_records_without_values_still_move_the_cursor(run_dir: Path) -> None:
    entry = EventUpdate(1, LEARNER, EventFrame("status", "hello", 0, 1))
    write(run_dir, [HistoryRecord(1, entry, ())])
    assert marks(run_dir) == [1]
    assert TensorBoardBackend(run_dir).open() == 1


@pytest.mark.parametrize(
    "tag",
    [
        "Episode / Total timesteps (mean)", "reward[0]", "reward(0)", "/lead", "../up", "a//b",
        "näive ☃", " blank ", "", "x" * 512, "a\nb", "a\0b",
    ],
)  # fmt: skip
def test_tags_are_written_unchanged_and_name_no_path(run_dir: Path, tag: str) -> None:
    write(run_dir, [update(1, 0, {tag: 1.0, "other": 2.0}), point(2, tag, 1)])
    assert points(run_dir, tag) == [(0, 1.0), (1, 2.0)]
    assert set(accumulate(run_dir).Tags()["scalars"]) == {tag, "other"}
    (path,) = run_dir.parent.rglob("*tfevents*")
    assert path.parent == run_dir
    assert sorted(path.name for path in run_dir.parent.iterdir()) == [run_dir.name]


def test_brackets_and_parentheses_stay_two_tags(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"reward[0]": 1.0, "reward(0)": 2.0})])
    assert points(run_dir, "reward[0]") == [(0, 1.0)]
    assert points(run_dir, "reward(0)") == [(0, 2.0)]


def test_no_point_is_thinned_away(run_dir: Path) -> None:
    write(run_dir, [update(n + 1, n, {"a": float(n)}) for n in range(12_345)])
    assert points(run_dir, "a") == [(n, float(n)) for n in range(12_345)]


def test_a_resume_at_an_older_step_leaves_readers_one_curve(run_dir: Path) -> None:
    first = [opened(1), *(update(2 + n, n, {"v": float(n)}) for n in range(150))]
    write(run_dir, first)
    resumed = (update(53 + n, n, {"v": float(-n)}, attempt=2) for n in range(100, 110))
    write(run_dir, [opened(152, 2), *resumed])
    expected = [float(n) for n in range(100)] + [float(-n) for n in range(100, 110)]
    assert points(run_dir, "v") == list(enumerate(expected))
    assert _plugin_steps(run_dir, "v") == list(range(110))
    starts = [e.step for e in raw_events(run_dir) if e.session_log.status == 1]
    assert set(starts) == {100}


def test_a_run_that_is_only_continued_has_no_session_start(run_dir: Path) -> None:
    write(run_dir, [opened(1), update(2, 0, {"v": 0.0})])
    write(run_dir, [opened(3, 2), update(4, 1, {"v": 1.0}, attempt=2)])
    assert points(run_dir, "v") == [(0, 0.0), (1, 1.0)]
    assert not [event for event in raw_events(run_dir) if event.session_log.status]


def test_text_histogram_and_image_reach_their_plugins(run_dir: Path) -> None:
    histogram = msgspec.msgpack.encode([[0.5, 1.0, 2.0], [1, 0, 2], 0.25, 1.5, 3, 3.25, 4.5])
    config = EventUpdate(1, LEARNER, EventFrame("config", "a: 1", 0, 7))
    write(
        run_dir,
        [
            blob(1, "text", "# head ☃".encode(), "notes [1]"),
            blob(2, "histogram", histogram, "weights"),
            blob(3, "image", _png(5, 3), "frame"),
            blob(4, "histogram", b"\xc1", "bad"),
            HistoryRecord(5, config, ()),
        ],
    )
    read = accumulate(run_dir)
    assert read.Tags()["tensors"] == ["notes [1]", "config"]
    assert read.Tensors("notes [1]")[0].tensor_proto.string_val == ["# head ☃".encode()]
    assert b"a: 1" in read.Tensors("config")[0].tensor_proto.string_val[0]
    assert read.SummaryMetadata("config").plugin_data.plugin_name == "text"
    value = read.Histograms("weights")[0].histogram_value
    assert (value.min, value.max, value.num) == (0.25, 1.5, 3.0)
    assert (value.sum, value.sum_squares) == (3.25, 4.5)
    assert (value.bucket_limit, value.bucket) == ([0.5, 1.0, 2.0], [1.0, 0.0, 2.0])
    image = read.Images("frame")[0]
    assert (image.width, image.height, image.encoded_image_string) == (5, 3, _png(5, 3))
    assert set(read.Tags()["histograms"]) == {"weights"}
    plugins = plugin_event_accumulator.EventAccumulator(str(run_dir))
    plugins.Reload()
    assert set(plugins.Tags()["tensors"]) == {"notes [1]", "config", "weights", "frame"}


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"", ImageSize()),
        (b"\x89PNG\r\n\x1a\n\0\0", ImageSize()),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x07\x00\x09\x03", ImageSize(9, 7, 3)),
        (b"\xff\xd8\xff\xe0\x00", ImageSize()),
        (b"GIF89a", ImageSize()),
    ],
)
def test_image_sizes_come_from_the_header(data: bytes, size: ImageSize) -> None:
    assert image_size(data) == size


def test_every_cut_of_the_last_flush_is_undone(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"v": 0.0}), update(2, 1, {"v": 1.0})])
    backend = TensorBoardBackend(run_dir)
    assert backend.open() == 2
    backend.write([update(3, 2, {"v": 2.0})])
    backend.close()
    first, second = own_files(run_dir)
    whole = second.read_bytes()
    for size in range(len(whole)):
        second.write_bytes(whole[:size])
        assert TensorBoardBackend(run_dir).open() == 2, size
        assert points(run_dir, "v") == [(0, 0.0), (1, 1.0)]
    second.unlink()
    whole = first.read_bytes()
    for size in range(len(whole)):
        first.write_bytes(whole[:size])
        assert TensorBoardBackend(run_dir).open() == 0
        assert not list(accumulate(run_dir).Tags()["scalars"])


def test_a_restart_goes_on_in_a_new_file_after_cutting_the_old_one(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"v": 0.0})])
    (first,) = own_files(run_dir)
    kept = first.read_bytes()
    unmarked = frame(b"\x10\x63" + b"*" * 7)[:-3]
    first.write_bytes(kept + unmarked)
    write(run_dir, [update(2, 1, {"v": 1.0})])
    assert first.read_bytes() == kept
    assert len(own_files(run_dir)) == 2
    assert points(run_dir, "v") == [(0, 0.0), (1, 1.0)]


def test_damage_before_the_last_mark_is_written_again(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"v": 0.0})], [update(2, 1, {"v": 1.0})])
    (path,) = own_files(run_dir)
    data = bytearray(path.read_bytes())
    last_update = list(read_records(path))[-2]
    data[last_update.start + 20] ^= 0xFF
    path.write_bytes(data)
    backend = TensorBoardBackend(run_dir)
    assert backend.open() == 1
    backend.write([update(2, 1, {"v": 1.0})])
    backend.close()
    assert points(run_dir, "v") == [(0, 0.0), (1, 1.0)]


def test_a_reader_that_follows_sees_a_restart(run_dir: Path) -> None:
    write(run_dir, [update(1, 0, {"v": 0.0})])
    reader = accumulate(run_dir)
    write(run_dir, [update(2, 1, {"v": 1.0})])
    assert [event.step for event in reader.Reload().Scalars("v")] == [0, 1]


def test_values_are_readable_while_the_file_is_open(run_dir: Path) -> None:
    backend = TensorBoardBackend(run_dir)
    backend.open()
    backend.write([update(1, 0, {"v": 0.0})])
    assert backend.update == 0
    assert backend.pending_bytes > 0
    backend.flush()
    assert backend.update == 1
    assert points(run_dir, "v") == [(0, 0.0)]
    backend.close()
    backend.close()


def test_a_full_disk_loses_and_doubles_nothing(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TensorBoardBackend(run_dir)
    backend.open()
    real_write = os.write
    room = [0, 7, 10_000, 13, 0, 1 << 30]

    def write_some(fd: int, data: Any) -> int:
        space = room[0]
        if len(room) > 1:
            room.pop(0)
        if space == 0:
            raise OSError(28, "No space left on device")
        return real_write(fd, bytes(data)[:space])

    monkeypatch.setattr(os, "write", write_some)
    failures: list[BackendError] = []
    for sequence in range(1, 30):
        backend.write([update(sequence, sequence, {"v": float(sequence)})])
        while True:
            try:
                backend.flush()
                break
            except BackendError as error:
                failures.append(error)
    backend.close()
    assert len(failures) == 4
    assert all("No space" in error.reason or "only a part" in error.reason for error in failures)
    assert failures[-1].path == own_files(run_dir)[0]
    assert points(run_dir, "v") == [(n, float(n)) for n in range(1, 30)]
    assert marks(run_dir) == list(range(1, 30))


def test_another_history_in_the_directory_starts_at_its_beginning(run_dir: Path) -> None:
    for journal in ("aa", "bb"):
        backend = TensorBoardBackend(run_dir)
        assert backend.open(journal) == 0
        backend.write([opened(1), *(update(2 + n, n, {"v": float(n)}) for n in range(3))])
        backend.close()
    assert points(run_dir, "v") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert TensorBoardBackend(run_dir).open("bb") == 4


def test_an_unusable_directory_is_a_backend_error(tmp_path: Path) -> None:
    backend = TensorBoardBackend(tmp_path / "missing")
    with pytest.raises(BackendError, match="missing"):
        backend.open()


def test_the_backend_loads_no_torch_and_no_tensorboardx() -> None:
    code = (
        f"import sys, {backend_module.__name__};"
        "print(*(name for name in ('torch', 'tensorboardX', 'tensorboardX.writer', 'PIL', "
        "'tensorboard', 'zmq', 'asyncio') if name in sys.modules));"
        "import tensorboardX; tensorboardX.SummaryWriter"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def _plugin_steps(run_dir: Path, tag: str) -> list[int]:
    """As the TensorBoard server itself reads."""
    reader = plugin_event_accumulator.EventAccumulator(
        str(run_dir), size_guidance={plugin_event_accumulator.TENSORS: 0}
    )
    reader.Reload()
    return [event.step for event in reader.Tensors(tag)]


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    rows = b"".join(b"\0" + b"\x80" * 3 * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
