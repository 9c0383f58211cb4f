"""Blocks of updates in brief: right, kept, and made again where they are missing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from long_run import LongRun, check

from unilab_metrics.aggregate.folding.packed import pack_values, unpack_values
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.journaling import blocks as blocks_module
from unilab_metrics.aggregate.journaling.binning import BLOCK_ENTRIES
from unilab_metrics.storage.block_files import BlockFiles
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments
from unilab_schema.requests import History
from unilab_schema.updates import BinBlock, Supplement


@pytest.fixture
def run(tmp_path: Path):
    made = LongRun(tmp_path)
    yield made
    made.stop()


def test_block_holds_minimum_maximum_mean_count_and_last(run: LongRun) -> None:
    run.iterate(BLOCK_ENTRIES + 10)
    reply = run.blocks.history(History(1))
    (block,) = reply.blocks
    # Sequence 1 is the opening of the attempt, so the first block has one update less.
    check(block, run.values[: BLOCK_ENTRIES - 1])
    assert (block.first, block.last) == (1, BLOCK_ENTRIES)
    assert block.iteration_range == (1, BLOCK_ENTRIES - 1)
    assert block.env_steps_range == (2, 2 * (BLOCK_ENTRIES - 1))
    assert reply.complete


def test_values_that_are_not_finite_leave_no_mark_on_the_others(run: LongRun) -> None:
    run.iterate(BLOCK_ENTRIES + 1)
    (block,) = run.blocks.history(History(1, 0, ("b",))).blocks
    assert block.tags == ("b",)
    assert unpack_values(block.count)[0] == 0
    assert math.isnan(unpack_values(block.minimum)[0])
    assert math.isnan(unpack_values(block.latest)[0])
    assert unpack_values(block.not_finite)[0] == BLOCK_ENTRIES - 1


def told(run: LongRun) -> list[BinBlock]:
    """All blocks, however slow the machine is: an answer is bounded by time too."""
    blocks: list[BinBlock] = []
    after = 0
    while True:
        reply = run.blocks.history(History(1, after))
        blocks += reply.blocks
        if reply.complete:
            return blocks
        after = reply.last


@pytest.mark.parametrize("lose", [False, True])
def test_blocks_go_on_after_a_restart(run: LongRun, lose: bool) -> None:
    run.iterate(BLOCK_ENTRIES + 500)
    run.stop()
    if lose:
        for path in list_segments(run.directory, blocks_module.BLOCKS):
            path.unlink()
    run.start()
    run.iterate(BLOCK_ENTRIES)
    first, second = told(run)
    check(first, run.values[: BLOCK_ENTRIES - 1])
    check(second, run.values[BLOCK_ENTRIES - 1 : 2 * BLOCK_ENTRIES - 1])
    assert [b.first for b in run.blocks.history(History(1, after=1)).blocks] == [second.first]


def test_what_comes_late_counts_in_its_block(run: LongRun) -> None:
    run.iterate(20)
    late = Supplement(1, 3, None, 0, 0, 0.0, 0, pack_values(np.array([1000.0])))
    run.blocks.add([Publication(22, late, ("a",))])
    (block,) = run.blocks._binner.block(run.journal.state.columns.tags)
    at = block.tags.index("a")
    assert unpack_values(block.maximum)[at] == 1000.0
    assert unpack_values(block.count)[at] == 21
    assert block.iteration_range == (1, 20)


def test_an_answer_says_which_entries_it_tells_about(run: LongRun) -> None:
    run.iterate(3 * BLOCK_ENTRIES + 10)
    reply = run.blocks.history(History(1, 0, ("nobody has this",)))
    assert (reply.blocks, reply.first, reply.last, reply.complete) == ((), 1, 3072, True)
    reply = run.blocks.history(History(1, 1500))
    assert (reply.first, reply.last) == (2049, 3072)
    reply = run.blocks.history(History(1, 3072))
    assert (reply.blocks, reply.last, reply.complete) == ((), 3072, True)


def test_blocks_are_the_same_from_the_files_and_end_before_a_missing_one(run: LongRun) -> None:
    run.iterate(4 * BLOCK_ENTRIES + 10)
    files = BlockFiles(run.directory)
    files.look()
    found = files.read(("a",), 0, budget_s=10)
    assert found.blocks == run.blocks.history(History(1, 0, ("a",))).blocks
    assert (found.first, found.last, found.complete) == (1, 4096, True)
    short = files.read(("a",), 0, budget_s=0)
    assert (short.first, short.last, short.complete) == (1, 1024, False)
    path = list_segments(run.directory, blocks_module.BLOCKS)[0]
    data = bytearray(path.read_bytes())
    places = [record.start for record in scan(data).records if record.kind == 40]
    data[places[1] + 60] ^= 1
    path.write_bytes(data)
    holed = BlockFiles(run.directory)
    holed.look()
    before = holed.read(("a",), 0, budget_s=10)
    assert (before.first, before.last, before.complete) == (1, 1024, False)
    behind = holed.read(("a",), 1024, budget_s=10)
    assert (behind.first, behind.last, behind.complete) == (2049, 4096, True)
