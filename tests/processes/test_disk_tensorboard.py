"""The event files on a disk that is full: the writer waits for room, nobody else does."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from case_runs import ended, scalars, updates
from real_runs import until
from small_disks import complete, filled, head_with, log_of, small_disk, training, watched

from unilab_metrics.crash_points import POINTS_VARIABLE
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

WRITER_LOG = "writer-tensorboard.log"


def small_run(stack: ExitStack, run_dir: Path) -> None:
    """Event files and the journal on two disks, so that one can be full without the other."""
    stack.enter_context(small_disk(run_dir, 1024))
    stack.enter_context(small_disk(bus_directory(run_dir), 8192))


@pytest.mark.slow
def test_a_full_disk_is_named_and_waited_out(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with ExitStack() as stack:
        small_run(stack, run_dir)
        trainer = stack.enter_context(training(run_dir))
        trainer.log(20)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.backends[0].update > 10)
            with filled(run_dir):
                trainer.log(200)
                head = head_with(viewer, lambda head: head.backends[0].state == "failed")
                assert head.backends[0].text.startswith(f"{run_dir}/events.")
                assert "no room" in head.backends[0].text
                # The journal has room, so nobody waits for the writer.
                head_with(viewer, lambda head: head.durable > 200)
            head_with(viewer, lambda head: head.backends[0].update > 200)
        facts, errors = trainer.close()
        assert (facts["delivered"], facts["drops"], errors) == (True, {}, "")
        ended(run_dir)
        steps = [step for step, _ in scalars(run_dir)["Loss/value_0"]]
        assert len(steps) == facts["calls"]
        said = log_of(run_dir, WRITER_LOG)
        assert said.count("failed: ") == 1
        assert said.count("works again") == 1


@pytest.mark.slow
@pytest.mark.parametrize("points", ["writer.events@2x2:eio", "writer.header:enospc"])
def test_one_error_of_the_disk_costs_the_event_files_nothing(points: str, tmp_path: Path) -> None:
    with training(tmp_path, **{POINTS_VARIABLE: points}) as trainer:
        trainer.log(20)
        until(lambda: list(tmp_path.glob("events.*")))
        until(lambda: trainer.log(20, 0.01) and "works again" in log_of(tmp_path, WRITER_LOG))
        facts, errors = trainer.close()
        assert (facts["delivered"], errors) == (True, "")
        ended(tmp_path)
        assert len(updates(tmp_path)) == facts["calls"]
    assert "works again" in log_of(tmp_path, WRITER_LOG)


@pytest.mark.slow
def test_a_disk_that_stays_full_holds_up_the_end_for_a_bounded_time(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with ExitStack() as stack:
        small_run(stack, run_dir)
        trainer = stack.enter_context(training(run_dir))
        trainer.log(20)
        with watched(run_dir) as viewer:
            head_with(viewer, lambda head: head.backends[0].update > 10)
            with filled(run_dir):
                trainer.log(200)
                head_with(viewer, lambda head: head.backends[0].state == "failed")
                facts, _ = trainer.close()
                assert facts["s"] < 25
                until(lambda: is_free(aggregator_lease(run_dir)))
                assert "run summary: " in log_of(run_dir)
        assert read_summary(run_dir) is None
        complete(run_dir)
        assert verify_run(run_dir).history.ended == "completed"
        assert len(scalars(run_dir)["Loss/value_0"]) == facts["calls"]
