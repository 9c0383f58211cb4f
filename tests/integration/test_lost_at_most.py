"""A wal was cut off and the spools no longer have all of it: nobody can tell how much of that the
history has, so what is said to be lost is a bound, and is called one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from killed_run import KilledRun, told

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.run.completing.recovery_report import recovery_lines
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.run.verifying.verify_report import report


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> KilledRun:
    return KilledRun(run_dir, tmp_path / "copies")


def cut_off(run: KilledRun, batches: int) -> Recovery:
    """The newest wal ends after so many batches, and the spools are of no help."""
    run.restore(trimmed=True)
    newest = run.records("wal")[-1][0]
    known = [record for path, record in run.records("wal") if path == newest]
    os.truncate(newest, [r for r in known if r.kind == EntryKind.BATCH][batches].start)
    return recover_run(run.run_dir)


def lines(run: KilledRun, done: Recovery) -> list[str]:
    return [*recovery_lines(done), *report(verify_run(run.run_dir))]


@pytest.mark.parametrize("batches", [0, 4, 8])
def test_it_is_never_less_than_what_is_missing_and_is_called_a_bound(
    batches: int, run: KilledRun
) -> None:
    run.restore()
    recover_run(run.run_dir)
    expected = told(run.run_dir)
    done = cut_off(run, batches)
    found = told(run.run_dir)
    assert found.events == expected.events
    lost = sum(taken.lost for taken in done.taken)
    missing = [k for k in expected.values if "Loss/value" not in found.values.get(k, {})]
    assert 0 < len(missing) <= lost
    told_lines = [line for line in lines(run, done) if line.startswith("losses")]
    assert told_lines == [f"losses       at most {lost} frames lost, dropped: nothing"] * 2
    assert any(f"at most {taken.lost} lost" in "\n".join(lines(run, done)) for taken in done.taken)


def test_what_is_lost_for_sure_is_no_bound(run: KilledRun) -> None:
    run.restore()
    done = recover_run(run.run_dir)
    assert "at most" not in "\n".join(lines(run, done))


def test_what_the_history_has_of_them_is_said_in_words(run: KilledRun) -> None:
    said = "\n".join(lines(run, cut_off(run, 4)))
    assert "the history has what" in said, said
