"""What is found of an attempt after its end comes into the backends like all else.

Processes of one run whose spools lie where ``recover`` does not see them at first, as those of
a node that is cut off.
"""

from __future__ import annotations

import json
from pathlib import Path

from case_runs import scalars
from click.testing import CliRunner
from cut_off_run import LAUNCH, end, log, open_run_directory, out_of_sight, source

from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.cli.root import commands
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import Verified, verify_run
from unilab_metrics.storage.places import spool_root
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.process import make_backend
from unilab_metrics.write.writer import run_writer
from unilab_schema.updates import EventUpdate, RunEnded


def kinds(run_dir: Path) -> list[str]:
    """What the history holds from its first end on; events by their kind."""
    names: list[str] = []
    with HistoryReader(bus_directory(run_dir)) as reader:
        for record in reader.poll(10_000):
            entry = record.entry
            if names or isinstance(entry, RunEnded):
                is_event = isinstance(entry, EventUpdate)
                names.append(entry.frame.kind if is_event else type(entry).__name__)
    return names


def run_writer_once(run_dir: Path) -> Verified:
    """Complete the backend, and nothing else."""
    backend = make_backend("tensorboard", run_dir)
    run_writer(run_dir, backend, stop=lambda: True, log=lambda _: None, follow=False)
    return verify_run(run_dir)


def recovered(run_dir: Path) -> Verified:
    """Taken in, the same in history and backend, and nothing to do the second time."""
    report = recover_run(run_dir)
    assert report.is_complete
    assert not recover_run(run_dir).did_something
    return verify_run(run_dir)


def test_iterations_of_a_rank_that_was_cut_off_are_in_the_backend(run_dir: Path) -> None:
    open_run_directory(run_dir)
    zero, one = source(0, learners=2), source(1, learners=2)
    log(zero, range(10))
    end(zero)
    log(one, range(15))
    end(one)
    with out_of_sight(one):
        recovered(run_dir)
        assert [step for step, _ in scalars(run_dir)["Loss/value"]] == list(range(10))
    found = recovered(run_dir)
    # Of ten iterations the tag is there already; five are new.
    assert [step for step, _ in scalars(run_dir)["Loss/value"]] == list(range(15))
    assert kinds(run_dir) == ["RunEnded", "reopened", *["Update"] * 5, "RunEnded"]
    assert (found.history.ended, found.lost_frames) == ("completed", 0)
    assert found.attempts[0].ended == "completed"
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["completed_iterations"], summary["bus"]["late_values"]) == (15, 10)


def test_tags_that_a_sealed_iteration_lacks_are_added_to_it(run_dir: Path) -> None:
    open_run_directory(run_dir)
    zero, one = source(0, learners=2), source(1, learners=2)
    log(zero, range(5))
    end(zero)
    for iteration in range(5):
        one.log({"Loss/other": float(iteration)}, iteration=iteration)
    end(one)
    with out_of_sight(one):
        recovered(run_dir)
    recovered(run_dir)
    assert scalars(run_dir)["Loss/other"] == [(n, float(n)) for n in range(5)]
    assert kinds(run_dir) == ["RunEnded", "reopened", *["Supplement"] * 5, "RunEnded"]


def test_a_goodbye_that_is_found_later_says_how_the_run_ended(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(5))
    spool = Path(publisher.identity.spool_path)
    before = {path: path.read_bytes() for path in spool.glob("spool-*")}
    end(publisher)
    after = {path: path.read_bytes() for path in spool.glob("spool-*")}
    lease = (spool / "lease").read_bytes()
    for path, data in before.items():
        path.write_bytes(data)
    assert recovered(run_dir).history.ended == "failed"
    # The rest of its spool, as from a disk that is back.
    spool.mkdir(mode=0o700, parents=True)
    for path, data in (*after.items(), (spool / "lease", lease)):
        path.write_bytes(data)
        path.chmod(0o600)
    assert recovered(run_dir).history.ended == "completed"
    assert kinds(run_dir) == ["RunEnded", "reopened", "RunEnded"]
    summary = read_summary(run_dir)
    assert summary is not None
    assert [row["state"] for row in summary["bus"]["sources"]] == ["finished"]


def test_an_end_that_was_taken_back_and_not_written_again_is_none(run_dir: Path) -> None:
    open_run_directory(run_dir)
    zero, one = source(0, learners=2), source(1, learners=2)
    log(zero, range(3))
    end(zero)
    log(one, range(6))
    end(one)
    with out_of_sight(one):
        recovered(run_dir)
    # Killed at the worst moment.
    spools = SpoolDirectories([spool_root() / LAUNCH])
    journal = OfflineJournal(bus_directory(run_dir), spools)
    journal._liveness.check()
    journal._core.seal_all()
    journal.close()
    assert run_writer_once(run_dir).history.ended is None
    assert recovered(run_dir).history.ended == "completed"
    assert [step for step, _ in scalars(run_dir)["Loss/value"]] == list(range(6))


def test_reports_of_sealed_iterations_are_added_to_the_last_one(run_dir: Path) -> None:
    open_run_directory(run_dir)
    learner, collector = source(), source(0, "collector")
    collector.log({"reward/x": 1.0, "Train/mean_reward": 5.0})
    log(learner, range(5))
    end(learner)
    end(collector)
    with out_of_sight(collector):
        recovered(run_dir)
    recovered(run_dir)
    found = scalars(run_dir)
    assert found["reward/x"] == [(4, 1.0)]
    assert found["Train/mean_reward"] == [(4, 5.0)]


def test_a_report_for_what_is_complete_is_counted_as_late(run_dir: Path) -> None:
    open_run_directory(run_dir)
    learner, one, two = source(), source(0, "collector"), source(1, "collector")
    for collector in (one, two):
        collector.log({"Train/mean_reward": 1.0})
    log(learner, range(5))
    for publisher in (learner, one, two):
        end(publisher)
    with out_of_sight(two):
        recovered(run_dir)
    done = CliRunner().invoke(commands, ["recover", str(run_dir)])
    assert "late         1 value for what is complete already: in the journal, in no" in done.output
    verify_run(run_dir)


def test_what_an_attempt_left_that_another_has_replaced_stays_late(run_dir: Path) -> None:
    open_run_directory(run_dir)
    first, other = source(0, learners=2), source(1, learners=2)
    log(first, range(5))
    end(first)
    log(other, range(9))
    with out_of_sight(other):
        end(other)
        again = source(0)
        log(again, range(5))
        end(again)
        recovered(run_dir)
    found = recovered(run_dir)
    assert found.history.ended == "completed"
    assert found.attempts[-1].iterations == 5
    assert [step for step, _ in scalars(run_dir)["Loss/value"]] == list(range(5))


def test_points_and_events_after_the_end_are_in_the_history_once(run_dir: Path) -> None:
    open_run_directory(run_dir)
    zero, evaluation = source(), source(0, "eval")
    log(zero, range(3))
    end(zero)
    evaluation.points([("Eval/return", 1.5, 7)])
    evaluation.event("status", "evaluated")
    end(evaluation)
    with out_of_sight(evaluation):
        recovered(run_dir)
    recovered(run_dir)
    assert scalars(run_dir)["Eval/return"] == [(7, 1.5)]
    assert kinds(run_dir)[:2] == ["RunEnded", "reopened"]
    assert kinds(run_dir).count("status") == 1


def test_the_report_says_that_the_run_has_ended_anew(run_dir: Path) -> None:
    open_run_directory(run_dir)
    zero, one = source(0, learners=2), source(1, learners=2)
    for publisher in (zero, one):
        log(publisher, range(3))
        end(publisher)
    with out_of_sight(one):
        recovered(run_dir)
    report = json.loads(CliRunner().invoke(commands, ["recover", str(run_dir), "--json"]).stdout)
    assert (report["ended_now"], report["status"]) == (True, "completed")
    assert (report["late_values"], report["adopted"][0]["rank"]) == (3, 1)
