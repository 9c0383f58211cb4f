"""``doctor`` gives no advice that does harm, and says whose the leftovers are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source, whole_run
from journal_feeder import fold, opened

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone, SourceJoined
from unilab_metrics.cli.root import commands
from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import ExitCode
from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.places import runtime_directory, spool_root
from unilab_metrics.storage.removed_runs import KEPT_S
from unilab_metrics.storage.spool_owner import RunFile, SpoolOwner
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.transport.ipc import remove_dead_endpoints
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory
from unilab_schema.identity import LEARNER, RunInfo, SourceKey

Findings = list[dict[str, Any]]


def examine(*arguments: str | Path) -> Findings:
    done = CliRunner().invoke(commands, ["doctor", "--json", *map(str, arguments)])
    assert done.exit_code in {ExitCode.OK, ExitCode.UNHEALTHY}, done.output
    return json.loads(done.output)["findings"]


def of_subject(findings: Findings, subject: str, level: str) -> list[tuple[str, str | None]]:
    return [
        (finding["finding"], finding["fix"])
        for finding in findings
        if (finding["subject"], finding["level"]) == (subject, level)
    ]


@pytest.fixture
def first(run_dir: Path) -> Iterator[Publisher]:
    """A live learner of rank 0 in a world of two, and a live aggregator."""
    open_run_directory(run_dir)
    publisher = source(learners=2)
    lease = Lease.create(bus_directory(run_dir), AGGREGATOR_LEASE, b"")
    yield publisher
    lease.release()
    end(publisher)


def gone_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def admit(run_dir: Path, first: Publisher, role: str, *, is_noticed: bool) -> int:
    """Journal rank 0's learner and a second process, which is gone; its pid."""
    pid = gone_pid()
    key = SourceKey(1 if role == LEARNER else 0, role)
    lease_path = run_dir / "lease-of-the-second"
    lease_path.touch()
    changed = {"key": key, "pid": pid, "incarnation": b"2" * 16, "lease_path": str(lease_path)}
    second = msgspec.structs.replace(first.identity, **changed)
    with opened(bus_directory(run_dir)) as journal:
        fold(journal, OpenAttempt(1, 0), SourceJoined(0, first.identity), SourceJoined(1, second))
        if is_noticed:
            fold(journal, SourceGone(1, "lost", 0, 0, "", "SIGKILL"))
    return pid


@pytest.mark.parametrize("is_noticed", [False, True])
def test_of_a_lost_rank_whose_training_goes_on_nothing_need_be_done(
    run_dir: Path, first: Publisher, *, is_noticed: bool
) -> None:
    pid = admit(run_dir, first, LEARNER, is_noticed=is_noticed)
    found = of_subject(examine(run_dir), "processes", "warning")
    ((text, fix),) = [one for one in found if "rank 1" in one[0]]
    assert text.startswith(f"learner of rank 1 (pid {pid}) ")
    assert fix == (
        "nothing need be done: iterations go on with n = 1 of 2 ranks, and the aggregator takes in "
        f"what it left; only to end the run: kill {os.getpid()}"
    )


def test_of_a_lost_collector_the_training_goes_on(run_dir: Path, first: Publisher) -> None:
    admit(run_dir, first, "collector", is_noticed=True)
    found = of_subject(examine(run_dir), "processes", "warning")
    ((_, fix),) = [one for one in found if "collector" in one[0]]
    assert fix is not None
    assert fix.startswith("nothing need be done: iterations go on, and the aggregator")


def test_ranks_that_never_came_are_a_warning(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source(learners=2)
    log(publisher, range(3))
    end(publisher)
    recover_run(run_dir)
    done = CliRunner().invoke(commands, ["doctor", str(run_dir)])
    assert done.exit_code == ExitCode.OK
    assert "warning  processes  1 of 2 ranks came (missing: rank 1)\n" in done.output


def test_of_a_rank_that_was_killed_before_the_end_it_is_said_after_it(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(3))
    end(publisher)
    recover_run(run_dir)
    path = run_dir / RUN_SUMMARY_FILE
    summary = json.loads(path.read_text())
    killed = {"role": "learner", "rank": 1, "state": "lost", "ending": "SIGKILL"}
    summary["bus"]["sources"].append({**killed, "last_iteration": 7})
    path.write_text(json.dumps(summary))
    done = CliRunner().invoke(commands, ["doctor", str(run_dir)])
    said = "warning  processes  learner of rank 1: was killed by SIGKILL at iteration 7\n"
    assert said in done.output
    summary["bus"]["attempt"] += 1
    path.write_text(json.dumps(summary))
    assert said not in CliRunner().invoke(commands, ["doctor", str(run_dir)]).output


def leave(name: str, run: Path | None, *, age_s: float = 7300.0, records: int = 1) -> Path:
    """A spool of a dead process below the launch ``name``; its launch's directory."""
    launch = spool_root() / name
    publisher = open_publisher(
        SourceKey(0, LEARNER),
        RunInfo("ppo", "Toy", "numpy"),
        launch_directory=launch,
        find_bus=lambda: None,
    )
    log(publisher, range(records))
    end(publisher)
    spool = Path(publisher.identity.spool_path)
    mark = None
    if run is not None:
        status = run.stat()
        mark = RunFile(path=str(run), device=status.st_dev, inode=status.st_ino)
    (spool / LEASE_NAME).write_bytes(SpoolOwner(pid=1, run=mark).encode())
    for path in (*spool.iterdir(), spool):
        os.utime(path, (0, time.time() - age_s))
    return launch


def leftovers(level: str = "warning") -> list[tuple[str, str | None]]:
    return of_subject(examine(), "leftovers", level)


def test_a_spool_of_a_run_that_is_there_names_it(run_dir: Path) -> None:
    whole_run(run_dir)
    launch = leave("another-launch", run_dir)
    ((text, fix),) = leftovers()
    assert text.startswith(f"{launch}: 1 spool of a dead process of ppo, ")
    assert text.endswith(f" KiB, last written 2 hours ago, of the run {run_dir}")
    assert fix == f"unilab-metrics recover {run_dir}"
    lease = Lease.create(bus_directory(run_dir), AGGREGATOR_LEASE, b"")
    try:
        assert [fix for _, fix in leftovers()] == ["its aggregator takes it in"]
    finally:
        lease.release()


def test_a_spool_of_a_run_that_is_gone_says_when_it_is_removed(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("one", "two")]
    for run in runs:
        run.mkdir()
    leave("launch-1", runs[0])
    leave("launch-2", runs[1], age_s=KEPT_S + 60)
    for run in runs:
        run.rmdir()
    (young, old) = leftovers()
    assert young[0].endswith(f"last written 2 hours ago, of the run {runs[0]}, which is gone")
    assert young[1] == "the next `aggregate` of any run removes it, not before 6 days from now"
    assert old[0].endswith(f"last written 7 days ago, of the run {runs[1]}, which is gone")
    assert old[1] == "the next `aggregate` of any run removes it"


def test_a_spool_that_names_no_run_says_so(tmp_path: Path) -> None:
    launch = leave("launch", None)
    ((text, fix),) = leftovers()
    assert text.endswith("ago, which does not say of which run")
    assert fix == (
        f"`unilab-metrics recover RUN_DIR --spool {launch}` with the run that was cut off "
        f"(`unilab-metrics ls`), or `rm -r {launch}` if nobody misses it"
    )
    run = tmp_path / "there"
    run.mkdir()
    shutil.rmtree(spool_root() / "launch")
    launch = leave("launch", run)
    ((text, fix),) = leftovers()
    assert text.endswith(f"of the run {run}, whose bus/ is gone")
    made = f"mkdir -m 700 -p {run}/bus && unilab-metrics aggregate {run} --spool {launch}"
    assert fix == made


def test_spools_that_name_no_run_are_one_warning_whose_fix_can_be_done(run_dir: Path) -> None:
    launches = [leave(f"launch-{number}", None, age_s=7200 * (number + 1)) for number in range(5)]
    lines = CliRunner().invoke(commands, ["doctor"]).output.splitlines()
    (told,) = [line for line in lines if "do not say of which run" in line]
    root = launches[0].parent
    assert told.startswith(
        f"warning  leftovers  5 spools of dead processes of 5 launches in {root} do not say of "
    )
    assert told.endswith(" KiB, last written 2 hours to 10 hours ago")
    fix = lines[lines.index(told) + 1]
    assert "`unilab-metrics recover RUN_DIR --spool PATH`" in fix
    assert not any("launch-" in line for line in lines)
    long = CliRunner().invoke(commands, ["doctor", "-v"]).output.splitlines()
    assert sum("launch-" in line for line in long) == 5
    open_run_directory(run_dir)
    done = CliRunner().invoke(commands, ["recover", str(run_dir), "--spool", str(launches[0])])
    assert done.exit_code == 0, done.output
    assert list(launches[0].parent.glob("launch-0/*")) == []


def test_leftovers_take_a_line_each_and_end_with_a_total(tmp_path: Path, run_dir: Path) -> None:
    (tmp_path / "run").mkdir()
    for number in range(3):
        leave(f"launch-{number}", tmp_path / "run")
    lines = CliRunner().invoke(commands, ["doctor"]).output.splitlines()
    of_spools = [number for number, line in enumerate(lines) if "leftovers" in line]
    assert len(of_spools) == 4
    assert of_spools == list(range(of_spools[0], of_spools[0] + 4))
    assert lines[of_spools[-1]].startswith(
        "info     leftovers  in all 3 spools of dead processes, "
    )
    assert "unilab-metrics aggregate RUN_DIR --spool PATH" in lines[of_spools[-1] + 1]
    whole_run(run_dir)
    short = CliRunner().invoke(commands, ["doctor", str(run_dir)]).output
    assert "launch-1" not in short
    assert "other runs have left 3 things behind" in short
    long = CliRunner().invoke(commands, ["doctor", str(run_dir), "-v"]).output
    assert [line[:8] for line in long.splitlines() if "launch-" in line] == ["info    "] * 3


def test_of_dead_sockets_an_aggregator_removes_those_that_it_is_said_to(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNILAB_METRICS_RUNTIME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    own, others = short_path / "unilab-metrics", short_path / f"unilab-metrics-{os.getuid()}"
    dead = [own / "17.in", own / "a socket", others / "18.in"]
    for path in dead:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    found = dict(of_subject(examine(), "leftovers", "warning"))
    fixes = [found[f"{path}: a socket at which nobody listens"] for path in dead]
    assert fixes == ["the next aggregator removes it", f"rm '{dead[1]}'", f"rm {dead[2]}"]
    remove_dead_endpoints(runtime_directory())
    assert [path.exists() for path in dead] == [False, True, True]
