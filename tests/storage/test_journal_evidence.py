"""What was durable is told from what was torn; a file that cannot be believed tells nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from journal_feeder import Feeder, expected, fold, history, opened

from unilab_metrics.aggregate.journaling import recovery
from unilab_metrics.aggregate.journaling.evidence import (
    DURABLE_FILE,
    Durable,
    read_durable,
    write_durable,
)
from unilab_metrics.aggregate.journaling.recovery import recover
from unilab_metrics.storage.segments import list_segments


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """Two iterations, all of it durable."""
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1), *feeder.iteration(2))
        journal.commit()
    return tmp_path


def known(bus: Path) -> Durable:
    found = read_durable(bus)
    assert found is not None
    return found


def cut_wal(bus: Path) -> None:
    path = list_segments(bus, "wal")[-1]
    os.truncate(path, path.stat().st_size - 1)


def test_it_says_what_lies_there_when_a_journal_is_closed(bus: Path) -> None:
    found = known(bus)
    for name, size in (
        (found.wal_name, found.wal_bytes),
        (found.history_name, found.history_bytes),
    ):
        assert (bus / name).stat().st_size == size
    assert found.update == recover(bus).last_update == 3
    assert (bus / DURABLE_FILE).stat().st_mode & 0o777 == 0o600


def test_what_was_safe_stays(bus: Path) -> None:
    cut_wal(bus)
    found = recover(bus)
    assert "had been safe" in found.wal_fault
    assert found.damaged_records == 1
    assert found.last_update == 3
    assert history(bus) == expected(2)


@pytest.mark.parametrize(
    "how", ["removed", "empty", "torn", "flipped", "directory", "other version"]
)
def test_without_it_the_wal_is_torn(how: str, bus: Path) -> None:
    path, what = bus / DURABLE_FILE, known(bus)
    data = bytearray(path.read_bytes())
    path.unlink()
    if how == "directory":
        path.mkdir()
    elif how == "other version":
        write_durable(bus, msgspec.structs.replace(what, version=2))
    elif how != "removed":
        data[-1] ^= how == "flipped"
        path.write_bytes(data[: {"empty": 0, "torn": -1}.get(how, len(data))])
    cut_wal(bus)
    found = recover(bus)
    assert found.wal_fault == ""
    assert found.last_update == 2


def test_an_old_one_claims_no_more_than_it_knew(bus: Path) -> None:
    old = (bus / DURABLE_FILE).read_bytes()
    for _ in range(3):
        with opened(bus) as journal:
            journal.commit()
    (bus / DURABLE_FILE).write_bytes(old)
    # The wal that it names is gone, and all that was in it is in the snapshots of later ones.
    for path in list_segments(bus, "wal")[:-2]:
        path.unlink()
    assert not (bus / known(bus).wal_name).exists()
    assert recover(bus).faults == []


def test_one_of_another_journal_means_nothing(bus: Path) -> None:
    write_durable(bus, msgspec.structs.replace(known(bus), journal=b"x" * 16))
    cut_wal(bus)
    assert recover(bus).wal_fault == ""


def test_bytes_of_a_longer_one_before_mean_nothing(bus: Path) -> None:
    what = known(bus)
    write_durable(bus, msgspec.structs.replace(what, cursors=what.cursors * 50))
    write_durable(bus, what)
    assert known(bus) == what


def test_what_becomes_safe_while_a_journal_is_read_is_no_loss(
    bus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a live run that a doctor looks at."""
    read = recovery.end_of_history

    def read_and_go_on(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        what = known(bus)
        write_durable(bus, msgspec.structs.replace(what, update=what.update + 9))
        return found

    monkeypatch.setattr(recovery, "end_of_history", read_and_go_on)
    assert recover(bus).faults == []
    monkeypatch.undo()
    assert recover(bus).faults != []
