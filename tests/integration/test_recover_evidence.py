"""What could not be read stays where somebody can look at it, and verify says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import kill, log, open_run_directory, source, spools
from killed_run import KilledRun

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, VerificationError
from unilab_metrics.run.bus_settings import SETTINGS_FILE
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX
from unilab_metrics.transport.rendezvous import bus_directory


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> KilledRun:
    return KilledRun(run_dir, tmp_path / "copies")


def segment(directory: Path) -> Path:
    return list_segments(directory, SPOOL_PREFIX)[0]


def test_what_waits_in_a_spool_is_seen_before_there_is_a_journal(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(5))
    kill(publisher)
    with pytest.raises(VerificationError, match="records wait in"):
        verify_run(run_dir)


def test_a_spool_of_which_nothing_is_left_is_not_removed(run: KilledRun) -> None:
    path = segment(next(spools()))
    os.truncate(path, 1)
    done = CliRunner().invoke(commands, ["recover", str(run.run_dir)])
    assert done.exit_code == ExitCode.UNEXPECTED, done.output
    assert "do not say whose they are" in done.output
    assert path.exists()


def test_nothing_is_removed_while_a_backend_is_not_complete(run: KilledRun) -> None:
    path = bus_directory(run.run_dir) / SETTINGS_FILE
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "backends": ["uensorboard"]}))
    before = list(spools())
    done = recover_run(run.run_dir)
    assert not done.is_complete
    assert (done.removed, list(spools())) == (0, before)
    path.write_text(json.dumps(settings))
    assert recover_run(run.run_dir).removed == len(before)


def test_a_spool_that_ends_before_the_journal_is_noted(run: KilledRun) -> None:
    for directory in spools():
        path = segment(directory)
        os.truncate(path, scan(path.read_bytes()).records[-1].start)
    shortest = next(d for d, cursor in run.cursors.items() if cursor == 9)
    with pytest.raises(VerificationError, match="wait"):
        verify_run(run.run_dir)
    for directory in spools():
        if directory != shortest:
            segment(directory).unlink()
    journal = verify_run(run.run_dir).journal
    assert journal is not None
    (note,) = journal.notes
    assert str(shortest) in note
    assert "the journal has 9" in note
