"""Blocks of a history that a node's loss has cut short: what they tell of is not there any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from long_run import LongRun, check

from unilab_metrics.aggregate.journaling.binning import BLOCK_ENTRIES
from unilab_metrics.aggregate.journaling.blocks import BLOCKS
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_schema.requests import History

ON_DISK = 900
"""So many iterations had reached the disk; the opening of the attempt is an entry too."""


@pytest.fixture
def cut_run(tmp_path: Path) -> Iterator[LongRun]:
    """A block has been written, and then the node was lost with what the block was made of."""
    (tmp_path / "bus").mkdir()
    made = LongRun(tmp_path / "bus")
    made.iterate(ON_DISK)
    made.stop()
    shutil.copytree(made.directory, tmp_path / "disk")
    made.start()
    made.iterate(BLOCK_ENTRIES)
    made.stop()
    assert made.blocks.history(History(1)).last == BLOCK_ENTRIES
    for path in list_segments(made.directory, BLOCKS):
        shutil.copy(path, tmp_path / "disk")
    made.directory = tmp_path / "disk"
    del made.values[ON_DISK:]
    yield made
    made.stop()


def test_what_is_not_there_is_not_told(cut_run: LongRun) -> None:
    past = PastFiles(cut_run.directory)
    assert (past.bins(("a",), 0).blocks, past.bins(("a",), 0).last) == ((), 0)
    cut_run.start()
    assert cut_run.blocks.history(History(1)).blocks == ()


def test_numbers_that_are_given_again_are_told_anew(cut_run: LongRun) -> None:
    cut_run.start()
    cut_run.iterate(BLOCK_ENTRIES - ON_DISK + 10, scale=100.0)
    ours = list_segments(cut_run.directory, BLOCKS)[-1]
    check(cut_run.blocks.history(History(1)).blocks[0], cut_run.values[: BLOCK_ENTRIES - 1])
    cut_run.stop()
    # As after a kill between the two files, or with a disk that had no room for the second.
    ours.unlink()
    past = PastFiles(cut_run.directory)
    assert past.bins(("a",), 0).blocks == ()
    cut_run.start()
    (block,) = cut_run.blocks.history(History(1)).blocks
    check(block, cut_run.values[: BLOCK_ENTRIES - 1])
    (block,) = PastFiles(cut_run.directory).bins(("a",), 0).blocks
    check(block, cut_run.values[: BLOCK_ENTRIES - 1])


def test_blocks_before_the_loss_are_not_made_again(tmp_path: Path) -> None:
    run = LongRun(tmp_path)
    run.iterate(BLOCK_ENTRIES + 10)
    for _ in range(2):
        run.stop()
        run.start()
        run.iterate(5)
    run.stop()
    assert len(list_segments(tmp_path, BLOCKS)) == 1
