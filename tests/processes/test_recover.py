"""``recover`` finishes what a training and its aggregator left when they died together."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import aggregator_pid, await_end, leftovers, processes, scalars, start
from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source
from cut_off_run import kill as kill_publisher
from real_runs import only_run, until

from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, StorageFullError
from unilab_metrics.run.bus_settings import SETTINGS_FILE
from unilab_metrics.run.completing import backend_completion
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.run.verifying.verify_report import report
from unilab_metrics.transport.rendezvous import bus_directory

TRAINING = """
import sys, time
import unilab_metrics as um

count = int(sys.argv[2])
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(count):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
while True:
    sys.stdin.readline()
    publisher.log({"Loss/value": float(count)}, iteration=count)
    count += 1
    print("more", flush=True)
"""


def recover(run_dir: Path, *options: str, code: int = ExitCode.OK) -> str:
    done = CliRunner().invoke(commands, ["recover", str(run_dir), *options])
    assert done.exit_code == code, done.output
    return done.output


def started(tmp_path: Path, count: int = 40) -> tuple[subprocess.Popen[str], Path]:
    training = start(TRAINING, tmp_path, str(count))
    assert training.stdout is not None
    assert training.stdout.readline() == "logged\n"
    return training, only_run(tmp_path)


def values(run_dir: Path) -> list[tuple[int, float]]:
    return scalars(run_dir).get("Loss/value", [])


def one_more(training: subprocess.Popen[str]) -> None:
    assert training.stdin is not None
    assert training.stdout is not None
    training.stdin.write("\n")
    training.stdin.flush()
    assert training.stdout.readline() == "more\n"


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await_end(*pids)


def killed_together(tmp_path: Path, count: int = 40, more: int = 5) -> Path:
    """A run whose training, aggregator and writer died at once, the last frames unsent."""
    training, run_dir = started(tmp_path, count)
    pid = aggregator_pid(run_dir)
    until(lambda: len(values(run_dir)) == count)
    os.kill(pid, signal.SIGSTOP)
    for _ in range(more):
        one_more(training)
    kill(training.pid, pid, *(writer.pid for writer in processes("write")))
    training.communicate()
    until(lambda: not processes("aggregate") and not processes("write"))
    return run_dir


def test_frames_that_never_left_the_spool_reach_the_backend_once(tmp_path: Path) -> None:
    run_dir = killed_together(tmp_path)
    output = recover(run_dir)
    assert "adopted      5 records of 1 process" in output
    assert "ended        failed: ended without close(): learner of rank 0 (written now)" in output
    assert "losses       0 frames lost, dropped: nothing" in output
    assert values(run_dir) == [(n, float(n)) for n in range(45)]
    verified = verify_run(run_dir)
    assert (verified.history.ended, verified.lost_frames) == ("failed", 0)
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["completed_iterations"] == 45
    assert summary["bus"]["backends"] == {"tensorboard": summary["bus"]["updates"]}
    assert [path for path in leftovers() if "launch" not in path] == []


def test_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    run_dir = killed_together(tmp_path, 5, 1)
    recover(run_dir)
    before = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*") if path.is_file()}
    output = recover(run_dir)
    assert output.startswith("nothing to do: the run is complete\n")
    assert {
        path: path.stat().st_mtime_ns for path in run_dir.rglob("*") if path.is_file()
    } == before
    assert json.loads(recover(run_dir, "--json"))["did_something"] is False


@pytest.mark.parametrize("damage", ["{", '{"version": 2}', None])
def test_where_spools_lie_is_not_known_without_the_settings(
    tmp_path: Path, damage: str | None
) -> None:
    run_dir = killed_together(tmp_path, 5, 1)
    settings = bus_directory(run_dir) / SETTINGS_FILE
    if damage is None:
        settings.unlink()
    else:
        settings.write_text(damage)
    output = recover(run_dir, code=ExitCode.UNEXPECTED)
    assert f"left alone   {settings}: " in output
    assert "the next attempt in this directory takes them in" in output


def test_a_live_run_is_refused_and_named(tmp_path: Path) -> None:
    training, run_dir = started(tmp_path, 3)
    pid = aggregator_pid(run_dir)
    refused = recover(run_dir, code=ExitCode.REFUSED)
    assert refused.endswith(
        f"live aggregator (pid {pid}), which completes it when this process has ended: "
        f"learner of rank 0 (pid {training.pid})\n"
    )
    kill(pid)
    # Before its successor is up.
    output = recover(run_dir, code=ExitCode.REFUSED)
    assert f"learner of rank 0 (pid {training.pid})" in output or "live aggregator" in output
    training.kill()
    training.communicate()
    # An aggregator that was on its way up may finish the run instead.
    recover(run_dir, "--wait", "30")
    assert len(values(run_dir)) == 3
    until(lambda: processes() == [])


def test_a_run_that_never_had_an_aggregator_is_recovered_from_its_spool(tmp_path: Path) -> None:
    training, run_dir = never_aggregated(tmp_path, 7)
    training.kill()
    training.communicate()
    report = json.loads(recover(run_dir, "--json"))
    assert report["complete"]
    assert report["iterations_sealed"] == 7
    assert report["adopted"][0]["pid"] == training.pid
    assert values(run_dir) == [(n, float(n)) for n in range(7)]


def test_a_copy_on_another_node_says_whose_spool_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = killed_together(tmp_path, 10, 3)
    copied = tmp_path / "elsewhere" / "run"
    shutil.copytree(run_dir, copied)
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", str(tmp_path / "other-spools"))
    hidden = tmp_path / "hidden"
    spool = next(Path(os.environ["TMPDIR"]).parent.joinpath("spool").iterdir())
    spool.rename(hidden)
    output = recover(copied)
    assert "not here     learner of rank 0" in output
    assert "its spool is not on this node" in output
    assert len(values(copied)) == 10
    hidden.rename(spool)
    monkeypatch.undo()
    shutil.rmtree(spool)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    recover(tmp_path, code=ExitCode.RUN_NOT_FOUND)


def test_a_spool_of_a_node_that_was_started_again_is_taken_in(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_run_directory(run_dir)
    monkeypatch.setattr("unilab_metrics.publish.opening.boot_id", lambda: "the boot before")
    publisher = source()
    log(publisher, range(5))
    end(publisher)
    report = json.loads(recover(run_dir, "--json"))
    assert (report["status"], report["iterations_sealed"]) == ("completed", 5)
    assert report["removed_spools"] == 1


def test_several_ranks_are_reduced_together(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publishers = [source(rank, learners=2) for rank in range(2)]
    for iteration in range(6):
        for rank, publisher in enumerate(publishers):
            publisher.log({"Loss/value": float(iteration + 10 * rank)}, iteration=iteration)
    for publisher in publishers:
        end(publisher)
    assert json.loads(recover(run_dir, "--json"))["iterations_sealed"] == 6
    assert values(run_dir) == [(n, n + 5.0) for n in range(6)]


def never_aggregated(tmp_path: Path, count: int) -> tuple[subprocess.Popen[str], Path]:
    training = start(TRAINING, tmp_path, str(count), UNILAB_METRICS_PYTHON="/bin/false")
    assert training.stdout is not None
    assert training.stdout.readline() == "logged\n"
    return training, only_run(tmp_path)


def test_a_process_that_runs_on_without_its_lease_is_named(tmp_path: Path) -> None:
    training, run_dir = never_aggregated(tmp_path, 3)
    # As if it had closed every descriptor that it had.
    (lease,) = Path(os.environ["UNILAB_METRICS_SPOOL"]).rglob("lease")
    lease.unlink()
    lease.touch(0o600)
    output = recover(run_dir, code=ExitCode.REFUSED)
    assert output.endswith(f"lives on this node: learner of rank 0 (pid {training.pid})\n")
    training.kill()
    training.communicate()
    recover(run_dir)
    assert len(values(run_dir)) == 3


@pytest.mark.slow
def test_an_interrupted_recovery_is_finished_by_the_next(tmp_path: Path) -> None:
    training, run_dir = never_aggregated(tmp_path, 30)
    training.kill()
    training.communicate()
    codes: list[int] = []
    for point in ("aggregator.wal@2", "aggregator.committed", "writer.header", "writer.flushed"):
        code = "from unilab_metrics.cli import main; main()"
        environment = os.environ | {"UNILAB_METRICS_CRASH_POINTS": point}
        command = [sys.executable, "-c", code, "recover", str(run_dir)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode in {-signal.SIGKILL, 0}, done.stderr
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL] * 4
    recover(run_dir)
    assert values(run_dir) == [(n, float(n)) for n in range(30)]
    verify_run(run_dir)


def test_a_disk_without_room_is_freed_before_the_next_time(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_run_directory(run_dir)
    publisher = source(1, "collector", instance=2)
    kill_publisher(publisher)

    def fail(*_: object, **__: object) -> None:
        raise StorageFullError(run_dir, 10, errno.ENOSPC)

    with monkeypatch.context() as patch:
        patch.setattr(OfflineJournal, "make_durable", fail)
        output = recover(run_dir, code=ExitCode.UNEXPECTED)
        assert "(No space left on device); the recovery needs about " in output
        assert output.endswith("Free that much and run it again\n")
    with monkeypatch.context() as patch:
        patch.setattr(backend_completion, "run_writer", fail)
        output = recover(run_dir, code=ExitCode.UNEXPECTED)
        assert "(No space left on device); free space and run it again\n" in output
    recover(run_dir)
    assert "collector 2 of rank 1 (pid" in "\n".join(report(verify_run(run_dir)))


def test_a_spool_in_a_directory_that_others_may_read_is_private_and_found(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "scratch"
    chosen.mkdir()
    chosen.chmod(0o755)
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", str(chosen))
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(5))
    end(publisher)
    assert Path(publisher.identity.spool_path).is_relative_to(chosen)
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", str(tmp_path / "elsewhere"))
    report = json.loads(recover(run_dir, "--json"))
    assert (report["iterations_sealed"], report["removed_spools"]) == (5, 1)
