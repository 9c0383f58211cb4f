"""``doctor`` names what is wrong with a run, and how to put it right; it changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from case_runs import aggregator_pid, finish, processes, start
from click.testing import CliRunner
from cut_off_run import end, log, newest, open_run_directory, rewrite, source, whole_run
from real_runs import only_run, until

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.meeting.launch_file import announce_run
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.places import runtime_directory
from unilab_metrics.storage.records import Record
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, decode_segment_header
from unilab_metrics.transport import registry
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(20):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
sys.stdin.readline()
assert publisher.close(), (publisher.errors, publisher.unsent)
"""

Findings = list[dict[str, Any]]


def examine(*arguments: str | Path, code: int = ExitCode.OK) -> Findings:
    done = CliRunner().invoke(commands, ["doctor", "--json", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return json.loads(done.output)["findings"]


def of_level(findings: Findings, *levels: str) -> list[str]:
    return [f"{f['finding']} -> {f['fix']}" for f in findings if f["level"] in levels]


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size, path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


def test_an_ended_run_is_well_and_untouched(run_dir: Path) -> None:
    whole_run(run_dir)
    home = Path(os.environ["TMPDIR"]).parent
    tempfile.gettempdir()  # tries once in each process whether it may write
    before = snapshot(run_dir) | snapshot(home)
    findings = examine(run_dir)
    assert of_level(findings, "error", "warning", "unknown") == []
    assert {finding["subject"] for finding in findings} == {
        "processes", "sockets", "keys", "backlog", "versions", "disk", "leftovers",
    }  # fmt: skip
    assert snapshot(run_dir) | snapshot(home) == before


def test_a_live_run_is_well(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
    pid = aggregator_pid(run_dir)
    # The writer takes its lease a moment after it has started.
    until(lambda: of_level(examine(run_dir), "error", "warning") == [])
    findings = examine(run_dir)
    assert any(f"aggregator (pid {pid}) lives" in text for text in of_level(findings, "ok"))
    assert any(f"(pid {training.pid}) lives" in text for text in of_level(findings, "ok"))
    assert any("the aggregator answers after" in text for text in of_level(findings, "ok"))
    of_newest_run = of_level(examine(), "ok")
    assert any(f"aggregator (pid {pid}) lives" in text for text in of_newest_run)
    finish(training, say="\n")
    until(lambda: not processes("aggregate"), 30.0)
    assert of_level(examine(run_dir), "error") == []


@pytest.mark.slow
def test_a_stopped_aggregator_is_named_with_what_wakes_it(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
    pid = aggregator_pid(run_dir)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert f"aggregator (pid {pid}) is stopped -> kill -CONT {pid}" in errors
    assert any("says nothing for 2 s" in text for text in errors)
    os.kill(pid, signal.SIGCONT)
    finish(training, say="\n")


LEARNER_AND_COLLECTOR = """
import subprocess, sys
import unilab_metrics as um

COLLECTOR = '''
import sys
import unilab_metrics as um
publisher = um.connect()
publisher.log({"reward/x": 1.0})
print("up", flush=True)
sys.stdin.readline()
publisher.close()
'''
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
for iteration in range(5):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print(child.pid, flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_killed_learner_is_named_with_who_lives_on(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    training = subprocess.Popen(
        [sys.executable, "-c", LEARNER_AND_COLLECTOR, str(tmp_path)],
        stdin=reading,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert training.stdout is not None
    child = int(training.stdout.readline())
    run_dir = only_run(tmp_path)
    pid = aggregator_pid(run_dir)
    # Not waited for: the system tells how it ended while it is a zombie.
    training.kill()
    said = f"learner of rank 0 (pid {training.pid}) was killed by SIGKILL"
    found: list[str] = []

    def is_named() -> bool:
        done = CliRunner().invoke(commands, ["doctor", "--json", str(run_dir)])
        found[:] = of_level(json.loads(done.output)["findings"], "warning")
        return any(text.startswith(said) and " s ago; " in text for text in found)

    try:
        until(is_named, 30.0)
        (text,) = [text for text in found if text.startswith(said)]
        assert f"collector (pid {child}) lives on -> the aggregator takes in what" in text
        assert f"kill {child} " in text
        assert not any("unilab-metrics recover" in warning for warning in found)
        assert aggregator_pid(run_dir) == pid
    finally:
        os.close(writing)
        os.close(reading)
        training.communicate()
    until(lambda: not processes("aggregate"), 60.0)


def test_an_aggregator_of_a_live_rank_0_is_being_started_again(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    warnings = of_level(examine(run_dir), "warning", "error")
    assert any(f"being started again by rank 0 (pid {os.getpid()})" in text for text in warnings)
    assert not any("unilab-metrics recover" in text for text in warnings)
    end(publisher)


def test_a_run_that_was_cut_off_needs_recover(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(5))
    live = examine(run_dir)
    assert any("frames wait in the spools" in text for text in of_level(live, "warning"))
    end(publisher)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert any(
        "was cut off" in text and f"unilab-metrics recover {run_dir}" in text for text in errors
    )
    assert any("7 records wait in 1 spool of a dead process" in text for text in errors)
    recover_run(run_dir)
    assert of_level(examine(run_dir), "error", "warning") == []


def test_a_backend_and_a_summary_that_are_missing(run_dir: Path) -> None:
    whole_run(run_dir)
    (run_dir / "run_summary.json").unlink()
    for path in run_dir.glob("events*"):
        path.unlink()
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert any("tensorboard lacks the updates after 0 of" in text for text in errors)
    assert any("without its run_summary.json" in text for text in errors)
    recover_run(run_dir)
    assert of_level(examine(run_dir), "error") == []


@pytest.mark.parametrize("prefix", ["wal", "history"])
def test_a_damaged_file_is_counted(run_dir: Path, prefix: str) -> None:
    whole_run(run_dir)
    path = newest(bus_directory(run_dir), prefix)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x20
    path.write_bytes(data)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert any(prefix in text for text in errors), errors


def test_an_unknown_version_is_an_error(run_dir: Path) -> None:
    whole_run(run_dir)

    def change(record: Record) -> list[tuple[int, int, bytes]] | None:
        if record.kind != KIND_SEGMENT_HEADER:
            return None
        header = decode_segment_header(record.payload, run_dir)
        later = msgspec.structs.replace(header, format_version=77)
        return [(record.kind, 0, msgspec.msgpack.encode(later))]

    kinds = [KIND_SEGMENT_HEADER, *EntryKind]
    rewrite(newest(bus_directory(run_dir), "wal"), kinds, change)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert any("version 77" in text for text in errors), errors


def test_files_that_others_may_read_are_named_with_chmod(run_dir: Path) -> None:
    whole_run(run_dir)
    path = bus_directory(run_dir) / "settings.json"
    path.chmod(0o644)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert errors == [f"{path}: mode 0644 lets others in -> chmod 600 {path}"]


def test_a_connection_file_of_a_dead_aggregator_is_stale(run_dir: Path) -> None:
    whole_run(run_dir)
    (bus_directory(run_dir) / "bus.json").write_bytes(
        json.dumps(
            {
                "version": 1, "run_dir": str(run_dir), "journal": "", "pid": 1, "host": "here",
                "started_unix_ns": 1, "boot_id": "b", "ingest": "ipc:///x.in",
                "announce": "ipc:///x.out", "fetch": "ipc:///x.ask",
            }
        ).encode()
    )  # fmt: skip
    (bus_directory(run_dir) / "bus.json").chmod(0o600)
    warnings = of_level(examine(run_dir), "warning")
    assert any("names an aggregator (pid 1 on here) that is gone" in text for text in warnings)


def test_an_empty_run_is_examined_without_a_word_about_its_journal(run_dir: Path) -> None:
    open_run_directory(run_dir)
    errors = of_level(examine(run_dir, code=ExitCode.UNHEALTHY), "error")
    assert [text.partition(":")[0] for text in errors] == ["the run was cut off"]


def test_leftovers_of_other_runs_are_named(run_dir: Path, tmp_path: Path) -> None:
    whole_run(run_dir)
    stale = runtime_directory() / "4711.in"
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
            str(stale),
        ],
        check=True,
    )
    other = source()
    log(other, range(3))
    end(other)
    spool = Path(other.identity.spool_path)
    moved = spool.parent.with_name("another-launch")
    spool.parent.rename(moved)
    (warning,) = of_level(examine(run_dir), "warning")
    assert warning.startswith("other runs have left 2 things behind on this node; this run is not")
    warnings = of_level(examine(), "warning")
    assert any(f"{stale}: a socket at which nobody listens" in text for text in warnings)
    assert any(f"{moved}: 1 spool of a dead process of ppo" in text for text in warnings)
    assert any(f"recover RUN_DIR --spool {moved}" in text for text in warnings)
    assert set(warnings) <= set(of_level(examine(run_dir), "info")), "with -v"
    announce_run(moved.name, tmp_path / "its run")
    assert any(f"recover '{tmp_path}/its run'" in text for text in of_level(examine(), "warning"))


def test_looking_frees_no_lease_of_this_very_process(run_dir: Path) -> None:
    whole_run(run_dir)
    lease = Lease.create(bus_directory(run_dir), AGGREGATOR_LEASE, b"")
    try:
        examine(run_dir)
        code = "import sys; from pathlib import Path; from unilab_metrics.storage.lease import *;"
        code += "sys.exit(is_free(Path(sys.argv[1])))"
        done = subprocess.run([sys.executable, "-c", code, str(lease.path)], check=False)
        assert done.returncode == 0
    finally:
        lease.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_what_may_not_be_looked_at_is_said(run_dir: Path) -> None:
    whole_run(run_dir)
    run_dir.chmod(0o755)
    for parent in run_dir.parents[:6]:
        if parent.owner() == "root" and "pytest" in str(parent):
            parent.chmod(0o755)
    code = (
        "import os, sys\n"
        # Before the change: the interpreter may lie where the other user may not look.
        "import unilab_metrics.cli.doctor, unilab_metrics.run.doctor.examination\n"
        "import unilab_metrics.write.backends.tensorboard, encodings.idna\n"
        "from unilab_metrics.cli import main\n"
        "from unilab_metrics.cli.root import commands\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "sys.argv = ['unilab-metrics', 'doctor', sys.argv[1]]\n"
        "main()\n"
    )
    environment = os.environ | {"HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(run_dir)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "Traceback" not in done.stderr, done.stderr
    # Another run of the tests may have closed the folder above meanwhile.
    assert "may not look at" in done.stdout or "cannot be looked at" in done.stderr, done


def test_without_a_run_the_machine_is_examined() -> None:
    done = CliRunner().invoke(commands, ["doctor"])
    assert done.exit_code == ExitCode.OK
    assert done.output.startswith("no live run on this machine\n")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(commands, ["doctor", str(tmp_path)])
    assert done.exit_code == ExitCode.RUN_NOT_FOUND


def test_the_registry_is_only_read(run_dir: Path) -> None:
    whole_run(run_dir)
    registry.register(run_dir, os.getpid())
    before = snapshot(Path(os.environ["XDG_STATE_HOME"]))
    examine()
    assert snapshot(Path(os.environ["XDG_STATE_HOME"])) == before
