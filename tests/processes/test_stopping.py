"""``--allow-control``: a training is asked to stop, and nobody else is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from real_runs import start, until

from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.process_table import pid_space
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.subscribe import stopping
from unilab_metrics.subscribe.stopping import Stopping
from unilab_schema.identity import LEARNER, Identity, SourceKey

TRAINING = """
import sys, time
import unilab_metrics as um
with um.init(algorithm="ppo", run_dir=sys.argv[1]) as publisher:
    try:
        print("trains", flush=True)
        for iteration in range(20_000):
            publisher.log({"Loss/value": 1.0}, iteration=iteration)
            time.sleep(0.02)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
def test_the_learner_is_interrupted_once_and_its_files_alone_stop_nobody(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    training = start(TRAINING, str(run_dir))
    try:
        until((run_dir / "bus" / "bus.json").exists)
        # Before that, Ctrl+C would not be heard where it is caught.
        assert training.stdout is not None
        assert training.stdout.readline() == "trains\n"
        said = Stopping(run_dir).ask()
        assert said == f"asked to stop, as by Ctrl+C: pid {training.pid}"
        output, errors = training.communicate(timeout=60)
        assert "interrupted" in output, errors
        assert Stopping(run_dir).ask().startswith("not stopped")
    finally:
        training.kill()
        training.communicate()


def test_of_several_learners_only_the_very_processes_of_this_node_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_ns = time.monotonic_ns()
    names = ("meant", "reused", "rebooted", "contained", "collector", "elsewhere", "forged")
    sleepers = [_sleeper(tmp_path, name) for name in names[:-1]]
    sleepers.append(subprocess.Popen(["sleep", "60"]))
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / LEASE_NAME).touch()
    written_ns = time.monotonic_ns()
    meant, reused, rebooted, contained, collector, elsewhere, forged = (
        _identity(one.pid, written_ns) for one in sleepers
    )
    identities = {
        "meant": meant,
        # Its pid was another's when the Identity was written.
        "reused": replace(reused, started_mono_ns=started_ns - 10**9),
        "rebooted": replace(rebooted, boot_id="another boot"),
        "contained": replace(contained, pid_space=1),
        "collector": replace(collector, key=SourceKey(0, "collector")),
        "elsewhere": replace(elsewhere, pid_space=0, host="another node"),
        # Somebody else's pid, and a time so late that it ran before.
        "forged": replace(forged, started_mono_ns=2**62),
    }
    monkeypatch.setattr(stopping, "spools_of", lambda run_dir: [run_dir / n for n in identities])
    monkeypatch.setattr(stopping, "_identity", lambda directory: identities[directory.name])
    try:
        assert Stopping(tmp_path).ask() == f"asked to stop, as by Ctrl+C: pid {sleepers[0].pid}"
        assert sleepers[0].wait(30) == -signal.SIGINT
        assert Stopping(tmp_path).ask().startswith("not stopped: no learner")
        assert [one.poll() for one in sleepers[1:]] == [None] * 6
    finally:
        for one in sleepers:
            one.kill()
            one.wait()


def test_who_goes_on_all_the_same_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    deaf = _sleeper(tmp_path, "deaf")
    signal.signal(signal.SIGINT, before)
    identity = _identity(deaf.pid, time.monotonic_ns())
    monkeypatch.setattr(stopping, "spools_of", lambda run_dir: [run_dir / "deaf"])
    monkeypatch.setattr(stopping, "_identity", lambda _: identity)
    asking = Stopping(tmp_path)
    try:
        assert asking.ask() == f"asked to stop, as by Ctrl+C: pid {deaf.pid}"
        assert asking.goes_on() is None
        monkeypatch.setattr(stopping, "STOP_S", 0.0)
        assert (asking.goes_on() or "").startswith(f"not stopped yet: pid {deaf.pid}; ")
    finally:
        deaf.kill()
        deaf.wait()
    assert asking.goes_on() == ""


def test_where_no_run_is_nobody_is_asked(tmp_path: Path) -> None:
    assert Stopping(tmp_path).ask().startswith("not stopped")


def test_who_was_asked_is_said_also_where_another_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(identity: Identity, _lease: Path) -> bool:
        if identity.pid == 22:
            raise PermissionError(1, "Operation not permitted")
        return True

    monkeypatch.setattr(stopping, "spools_of", lambda run_dir: [run_dir / n for n in "ab"])
    monkeypatch.setattr(stopping, "runs_here", lambda _: True)
    monkeypatch.setattr(stopping, "_interrupt", interrupt)
    pids = {"a": 11, "b": 22}
    monkeypatch.setattr(stopping, "_identity", lambda place: _identity(pids[place.name], 0))
    failed = "not stopped: pid 22: Operation not permitted"
    assert Stopping(tmp_path).ask() == f"asked to stop, as by Ctrl+C: pid 11; {failed}"
    pids["a"] = 22
    assert Stopping(tmp_path).ask() == f"{failed}, pid 22: Operation not permitted"


def _sleeper(folder: Path, name: str) -> subprocess.Popen[bytes]:
    (folder / name).mkdir()
    with (folder / name / LEASE_NAME).open("wb") as lease:
        return subprocess.Popen(["sleep", "60"], pass_fds=(lease.fileno(),))


def _identity(pid: int, started_mono_ns: int) -> Identity:
    return Identity(
        SourceKey(0, LEARNER), b"i" * 16, pid, os.uname().nodename, boot_id(), "", "",
        started_mono_ns, 0, pid_space=pid_space(),
    )  # fmt: skip
