"""A run with damaged files is played again: all that can be read, and the number of the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from long_history import EPOCH, LongHistory

from unilab_metrics.errors import (
    DamagedFileError,
    ExitCode,
    UnilabMetricsError,
    UnknownVersionError,
)
from unilab_metrics.storage.segments import SegmentHeader, encode_segment_header
from unilab_metrics.subscribe.replay import Replay
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.series import Series

COUNT = 1500
LAST = COUNT + 2


def segments(bus_dir: Path) -> list[Path]:
    return sorted(bus_dir.glob("history-*"))


def change(path: Path, changed: Callable[[bytes], bytes]) -> None:
    path.write_bytes(changed(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda bus: None,
    "torn tail": lambda bus: change(segments(bus)[-1], lambda data: data[:-7]),
    "zeros at the end": lambda bus: change(segments(bus)[-1], lambda data: data + bytes(4096)),
    "a flipped byte": lambda bus: change(segments(bus)[1], flipped),
    "no blocks": lambda bus: [path.unlink() for path in bus.glob("blocks-*")],
    "damaged blocks": lambda bus: change(next(bus.glob("blocks-*")), flipped),
    "no first segment": lambda bus: segments(bus)[0].unlink(),
    "a segment of zeros": lambda bus: change(segments(bus)[0], lambda data: bytes(len(data))),
    "a cut segment": lambda bus: change(segments(bus)[1], lambda data: data[:1000]),
    "a segment missing": lambda bus: segments(bus)[1].unlink(),
    "an empty last segment": lambda bus: change(segments(bus)[-1], lambda data: b""),
}


@pytest.fixture
def run(tmp_path: Path) -> LongHistory:
    made = LongHistory(tmp_path / "run", segment_bytes=40_000)
    made.updates(COUNT)
    made.end()
    made.write()
    assert len(segments(made.bus_dir)) > 3
    return made


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_that_can_be_read_comes_and_the_rest_is_counted(run: LongHistory, damage: str) -> None:
    DAMAGES[damage](run.bus_dir)
    replay = Replay(run.run_dir, speed=10_000)
    sequences = [record.sequence for record in replay.poll(0)]
    while replay.cursor < replay.newest():
        sequences += [record.sequence for record in replay.poll(500)]
    assert sequences == sorted(set(sequences))
    lost = replay.newest() - len(sequences)
    assert replay.lost_entries == lost
    # The same by another reader.
    with Subscriber.attach(run.run_dir) as subscriber:
        read: list[int] = []
        while found := subscriber.poll(0):
            read += [record.sequence for record in found]
        assert subscriber.lost_entries == lost
    assert read == sequences
    if damage in ("nothing", "zeros at the end", "no blocks", "damaged blocks"):
        assert (lost, replay.newest()) == (0, LAST)
    elif damage in ("torn tail", "an empty last segment"):
        assert (lost, replay.newest() < LAST, replay.connected) == (0, True, False)
    else:
        assert lost > 0
        assert replay.newest() == LAST
    # A jump to the middle, and back, is no worse.
    for place in (LAST // 2, 1, LAST):
        replay.pace(None, place, is_paused=True)
        assert replay.cursor <= max(place, 8)
        replay.bins((), 0)
    series = Series("/runs/one")
    series.add(Batch(lost_entries=lost, connected=True))
    texts = [alert.text for alert in alerts(series.picture())]
    assert any(f"{lost:,} entr" in text and "verify" in text for text in texts) == (lost > 0)


def unknown(data: bytes) -> bytes:
    known = encode_segment_header(SegmentHeader(1, "history", EPOCH, 0))
    assert data.startswith(known)
    return encode_segment_header(SegmentHeader(2, "history", EPOCH, 0)) + data[len(known) :]


@pytest.mark.parametrize(
    ("changed", "error", "code", "words"),
    [
        (unknown, UnknownVersionError, ExitCode.DAMAGED, "format version 2"),
        (None, DamagedFileError, ExitCode.DAMAGED, "nothing in it can be read"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(
    run: LongHistory,
    changed: Callable[[bytes], bytes] | None,
    error: type[UnilabMetricsError],
    code: ExitCode,
    words: str,
) -> None:
    if changed is not None:
        change(segments(run.bus_dir)[0], changed)
    else:
        for path in segments(run.bus_dir):
            path.write_bytes(b"\xff" * 5000)
    with pytest.raises(error, match=words) as raised:
        Replay(run.run_dir)
    assert raised.value.exit_code == code
    assert "\n" not in str(raised.value)
