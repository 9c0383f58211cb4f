"""``verify`` says in words what it cannot compare: who never came, who is gone, what is retired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from cut_off_run import end, kill, log, open_run_directory, source
from journal_feeder import fold, opened

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceJoined
from unilab_metrics.aggregate.journaling import snapshots_due
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory
from unilab_metrics.wording import agreeing, counted


def verify(run_dir: Path, *options: str) -> str:
    done = CliRunner().invoke(commands, ["verify", str(run_dir), *options])
    assert done.exit_code == ExitCode.OK, done.output
    return done.output


def facts(run_dir: Path) -> dict[str, Any]:
    return json.loads(verify(run_dir, "--json"))


def one_of_two_ranks(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source(learners=2)
    log(publisher, range(3))
    end(publisher)
    recover_run(run_dir)


def test_a_rank_that_never_came_is_named(run_dir: Path) -> None:
    one_of_two_ranks(run_dir)
    assert "ranks        1 of 2 ranks came (missing: rank 1)\n" in verify(run_dir)
    assert facts(run_dir)["ranks"] == {"expected": 2, "missing": [1]}
    lease = Lease.create(bus_directory(run_dir), AGGREGATOR_LEASE, b"")
    try:
        assert "ranks        1 of 2 ranks came so far (missing: rank 1)\n" in verify(run_dir)
    finally:
        lease.release()


def test_ranks_that_all_came_are_no_word(run_dir: Path) -> None:
    open_run_directory(run_dir)
    both = [source(rank, learners=2) for rank in range(2)]
    for publisher in both:
        log(publisher, range(3))
        end(publisher)
    recover_run(run_dir)
    assert "ranks " not in verify(run_dir)
    assert facts(run_dir)["ranks"] == {"expected": 2, "missing": []}


def journaled_as_live(run_dir: Path, **changes: Any) -> Publisher:
    """A process that the journal has admitted and never lost, and whose frames it all has."""
    open_run_directory(run_dir)
    publisher = source()
    identity = msgspec.structs.replace(publisher.identity, **changes)
    with opened(bus_directory(run_dir)) as journal:
        fold(journal, OpenAttempt(1, 0), SourceJoined(0, identity))
    return publisher


def without_records(publisher: Publisher) -> None:
    for path in list_segments(Path(publisher.identity.spool_path), SPOOL_PREFIX):
        path.unlink()


def test_a_process_that_is_gone_is_not_called_live(run_dir: Path) -> None:
    publisher = journaled_as_live(run_dir)
    assert "not closed (live)" in verify(run_dir)
    kill(publisher)
    without_records(publisher)
    output = verify(run_dir)
    assert "ended without close() (its counts are a lower bound)" in output
    assert "0 records of 1 process, 1 ended without close()\n" in output
    assert "live" not in output
    assert facts(run_dir)["sources"][0]["state"] == "gone"


def test_a_process_of_another_node_cannot_be_asked(run_dir: Path) -> None:
    publisher = journaled_as_live(run_dir, boot_id="another", host="far-away")
    assert "not closed (it is not to be seen from here; it was on far-away)" in verify(run_dir)
    end(publisher)


def test_a_wal_whose_older_segments_were_retired_says_where_it_begins(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_due, "MAX_KEPT_WAL_SEGMENTS", 1)
    one_of_two_ranks(run_dir)
    assert "retired" not in verify(run_dir)
    for instance in range(3):
        publisher = source(0, "collector", instance=instance)
        publisher.log({"reward/x": 1.0})
        end(publisher)
        recover_run(run_dir)
    begins = facts(run_dir)["wal_begins_at"]
    assert begins > 1
    said = f"equal to the history (the wal begins at update {begins}: older segments were retired)"
    assert said in verify(run_dir)
    assert facts(run_dir)["wal_set_aside"] == []


def test_damaged_segments_that_were_set_aside_are_no_retired_ones(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_due, "MAX_KEPT_WAL_SEGMENTS", 1)
    one_of_two_ranks(run_dir)
    first, *_ = list_segments(bus_directory(run_dir), "wal")
    for instance in range(3):
        publisher = source(0, "collector", instance=instance)
        publisher.log({"reward/x": 1.0})
        end(publisher)
        if instance == 2:
            names = [path.name for path in list_segments(bus_directory(run_dir), "wal")]
        recover_run(run_dir)
    aside = first.with_name(f"{names[0]}.damaged")
    aside.write_bytes(b"not to be read")
    (first.parent / "wal-notes.damaged").touch()
    begins = facts(run_dir)["wal_begins_at"]
    said = f"(the wal begins at update {begins}: 1 older segment was set aside as damaged"
    assert f"{said} (in {aside.name}))" in verify(run_dir)
    assert facts(run_dir)["wal_set_aside"] == [aside.name]


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1000, "1,000 entries")],
)
def test_numbers_have_the_right_plural(number: int, said: str) -> None:
    assert counted(number, "entry", "entries") == said
    assert counted(number, "frame").endswith("s") == (number != 1)
    assert agreeing(number, "waits", "wait") == ("waits" if number == 1 else "wait")
