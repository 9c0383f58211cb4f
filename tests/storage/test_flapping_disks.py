"""A disk that fails for long, or comes and goes, fills neither a log nor the run's summary."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from journal_feeder import Feeder, opened

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.errors import StorageFullError
from unilab_metrics.said_once import MOST_TIMES
from unilab_metrics.storage.segments import SegmentWriter
from unilab_metrics.write import writer as writer_module
from unilab_metrics.write.backends.base import BackendError
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend


def full(_: SegmentWriter, data: bytes) -> int:
    raise StorageFullError(Path("/disk/wal"), len(data), errno.ENOSPC)


def test_an_aggregators_disk_that_comes_and_goes_is_said_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unilab_metrics.aggregate.core.RETRY_NS", 0)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        blocks = BlockStore(tmp_path, journal)
        core = Core(journal, blocks, 30.0)
        core.fold(feeder.joined)
        for _ in range(4 * MOST_TIMES):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(SegmentWriter, "append", full)
                for _ in range(3):
                    for entry in feeder.iteration(feeder.last + 1):
                        core.fold(entry)
                    assert not core.commit()
            assert core.commit()
            assert core.problem == ""
        warnings = [text for text in core.state.data.warnings if "no room" in text]
        core.commit()
        blocks.close()
    said = "".join(capfd.readouterr())
    assert said.count("frames wait in the spools") == MOST_TIMES
    assert said.count("nothing was lost") == MOST_TIMES
    assert sum(core.state.data.warnings[text] for text in warnings) == MOST_TIMES


def test_a_writer_says_once_what_every_retry_says_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.0)
    lines: list[str] = []
    backend = TensorBoardBackend(tmp_path)
    writer = writer_module._Writer(tmp_path, backend, lambda: False, lines.append, follow=False)
    for number in range(20):
        # Each tries another file, with more that waits.
        path = tmp_path / f"events.out.tfevents.{number}"
        cause = StorageFullError(path, 100 + number, errno.ENOSPC if number % 2 else 0)
        error = BackendError(path, cause.reason)
        error.__cause__ = cause
        assert not writer._refused(error, ending=False)
    assert len(lines) == 1
    assert lines[0].endswith("; trying again every second")
    writer._recovered()
    writer._recovered()
    assert lines[1:] == ["tensorboard works again"]
    writer._link.close()
