"""Any stretch of a history from its files: over segments, restarts and damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_history import TAGS, LongHistory

from unilab_metrics.errors import DamagedFileError, RunNotFoundError, UnknownVersionError
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_metrics.subscribe.replay import Replay
from unilab_schema.updates import AttemptOpened, Update

COUNT = 3000


@pytest.fixture(scope="module")
def bus_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of many small segments."""
    made = LongHistory(tmp_path_factory.mktemp("files") / "run", segment_bytes=20_000)
    made.updates(COUNT)
    made.write()
    return made.bus_dir


def test_a_stretch_is_what_a_reader_of_everything_sees(bus_dir: Path) -> None:
    with HistoryReader(bus_dir) as reader:
        everything = reader.poll(10_000)
    past = PastFiles(bus_dir)
    assert past.last() == COUNT + 1
    assert len(list_segments(bus_dir, "history")) > 10
    for after in (0, 1, 2, 999, 1000, 2047, 2990, COUNT, COUNT + 1, COUNT + 50):
        found = past.stretch(after, 40)
        wanted = everything[after : after + 40]
        assert [r.sequence for r in found.records] == [r.sequence for r in wanted]
        assert [r.entry for r in found.records] == [r.entry for r in wanted]
        assert all(r.tags == TAGS for r in found.records if isinstance(r.entry, Update))
        assert found.last == (wanted[-1].sequence if wanted else after)


def test_a_stretch_is_bounded(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", tags=tuple(f"m/{n}" for n in range(400)))
    made.value = lambda tag, k: 1.0  # type: ignore[method-assign]
    made.updates(400)
    made.write()
    past = PastFiles(made.bus_dir)
    found = past.stretch(0, 10_000)
    assert 100 < len(found.records) < 200
    assert past.stretch(found.last, 1).records[0].sequence == found.last + 1


def test_damage_costs_what_lies_in_it(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", segment_bytes=20_000)
    made.updates(600)
    made.write()
    middle = list_segments(made.bus_dir, "history")[2]
    data = bytearray(middle.read_bytes())
    data[10_000:10_010] = b"##########"
    middle.write_bytes(data)
    past = PastFiles(made.bus_dir)
    told: list[int] = []
    after = 0
    while (found := past.stretch(after, 50)).records:
        told += [r.sequence for r in found.records]
        after = found.last
    assert 598 <= len(told) <= 600
    assert sorted(set(told)) == told
    assert told[-1] == 601 == past.last()


def test_a_replay_begins_where_the_run_had_come_to_an_iteration(bus_dir: Path) -> None:
    replay = Replay(bus_dir.parent, speed=1, iteration=1234)
    records = replay.poll(0)
    updates = [record.entry for record in records if isinstance(record.entry, Update)]
    assert len(updates) == len(records)
    assert (updates[0].iteration, updates[-1].iteration) == (1234 - 599, 1234)
    assert replay.head.update == replay.cursor == 1235
    assert replay.snapshot() is None
    assert replay.newest() == COUNT + 1
    later = Replay(bus_dir.parent, speed=1, iteration=2900)
    snapshot = later.snapshot()
    assert snapshot is not None
    assert (snapshot.update, snapshot.tags) == (2048, TAGS)
    assert Replay(bus_dir.parent, iteration=10**6).poll(0)[-1].sequence == COUNT + 1


def test_a_replay_hands_over_everything_once_and_stands_still_when_asked(bus_dir: Path) -> None:
    replay = Replay(bus_dir.parent, speed=10_000)
    first = replay.poll(0)
    assert isinstance(first[0].entry, AttemptOpened)
    told = [r.sequence for r in first]
    while told[-1] <= COUNT:
        told += [r.sequence for r in replay.poll(50)]
    assert told == list(range(1, COUNT + 2))
    assert not replay.connected
    pace = replay.pace(0.5, 100, is_paused=True)
    assert (pace.speed, pace.is_paused, replay.restarts) == (0.5, True, 1)
    assert [r.sequence for r in replay.poll(0)] == list(range(1, 101))
    assert replay.poll(30) == []
    replay.pace(None, None, is_paused=False)
    assert replay.poll(5000)[0].sequence == 101


def test_a_replay_of_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        Replay(tmp_path)
    made = LongHistory(tmp_path / "run")
    made.write()
    (path,) = list_segments(made.bus_dir, "history")
    data = path.read_bytes()
    path.write_bytes(data[:2] + b"\x09" + data[3:])
    with pytest.raises((UnknownVersionError, DamagedFileError)) as raised:
        Replay(made.run_dir)
    assert raised.value.exit_code == 6
    path.write_bytes(b"#" * len(data))
    with pytest.raises(DamagedFileError):
        Replay(made.run_dir)
