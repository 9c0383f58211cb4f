"""A ``recover`` that is refused says by whom, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, log, newest, open_run_directory, source, whole_run

from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.publish import opening
from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.run.completing.lease_holder import recovery_payload
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory
from unilab_schema.identity import RunInfo, SourceKey


@pytest.mark.parametrize("command", ["recover", "aggregate"])
def test_who_loses_against_a_recover_is_told_so(run_dir: Path, command: str) -> None:
    open_run_directory(run_dir)
    holding = Lease.create(bus_directory(run_dir), AGGREGATOR_LEASE, recovery_payload())
    try:
        done = CliRunner().invoke(commands, [command, str(run_dir)])
        assert (done.exit_code, done.output.count("\n")) == (ExitCode.REFUSED, 1)
        assert f"another recover (pid {os.getpid()})" in done.output
        assert "let it end" in done.output
        assert "aggregator" not in done.output
        examined = CliRunner().invoke(commands, ["doctor", str(run_dir), "-v"]).output
        assert f"recover (pid {os.getpid()}) lives" in examined
    finally:
        holding.release()


@pytest.mark.parametrize("name", [AGGREGATOR_LEASE, "writer-tensorboard.lease"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "symlink"])
def test_a_lease_that_is_no_file_holds_nobody_up(run_dir: Path, name: str, kind: str) -> None:
    path = bus_directory(open_run_directory(run_dir)) / name
    match kind:
        case "pipe":
            os.mkfifo(path, 0o600)
        case "directory":
            path.mkdir(0o700)
        case _:
            path.symlink_to("elsewhere")
    done = CliRunner().invoke(commands, ["recover", str(run_dir)])
    assert done.exit_code == ExitCode.UNEXPECTED, done.output
    assert f"{name}" in done.output
    for command in ("verify", "doctor"):
        examined = CliRunner().invoke(commands, [command, str(run_dir)])
        assert isinstance(examined.exception, SystemExit | None), examined.exc_info
    listed = CliRunner().invoke(commands, ["ls", "--logs", str(run_dir)])
    assert listed.exit_code == 0


@pytest.mark.parametrize("damage", [bytes(64), b"no record" * 9])
def test_a_spool_that_does_not_say_whose_it_is_is_named(run_dir: Path, damage: bytes) -> None:
    open_run_directory(run_dir)
    whole = source()
    log(whole, range(3))
    end(whole)
    recover_run(run_dir)
    damaged = source()
    log(damaged, range(3, 6))
    end(damaged)
    spool = Path(damaged.identity.spool_path)
    (segment,) = list_segments(spool, SPOOL_PREFIX)
    segment.write_bytes(damage)
    for command, code in (
        ("verify", ExitCode.VERIFICATION_FAILED),
        ("doctor", ExitCode.UNHEALTHY),
        ("recover", ExitCode.UNEXPECTED),
    ):
        done = CliRunner().invoke(commands, [command, str(run_dir)])
        assert done.exit_code == code, done.output
        assert str(spool) in done.output, command
        assert f"{len(damage)} bytes that do not say whose they are" in done.output, command
    assert segment.read_bytes() == damage
    segment.write_bytes(b"")
    assert CliRunner().invoke(commands, ["recover", str(run_dir)]).exit_code == 0


def test_a_spool_of_a_process_that_is_not_understood_is_not_called_damaged(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_run_directory(run_dir)
    whole = source()
    log(whole, range(3))
    end(whole)
    recover_run(run_dir)
    # As another version, which knows more axes, would have written it.
    monkeypatch.setattr(opening, "decode_payload", lambda *_: None)
    foreign = open_publisher(
        SourceKey(0, "learner"),
        RunInfo(step_axis="global_step"),  # type: ignore[arg-type]
        launch_directory=Path(whole.identity.spool_path).parent,
        find_bus=lambda: None,
    )
    log(foreign, range(3, 6))
    end(foreign)
    for command, code in (
        ("verify", ExitCode.VERIFICATION_FAILED),
        ("doctor", ExitCode.UNHEALTHY),
        ("recover", ExitCode.UNEXPECTED),
    ):
        done = CliRunner().invoke(commands, [command, str(run_dir)])
        assert done.exit_code == code, done.output
        assert foreign.identity.spool_path in done.output, command
        assert "Invalid enum value 'global_step'" in done.output, command
        assert "they are not damaged, another version may take them in" in done.output, command
        assert "do not say whose they are" not in done.output, command


def test_a_wal_that_lacks_what_a_backend_has_changes_nothing(run_dir: Path) -> None:
    assert whole_run(run_dir).is_complete
    wal = newest(bus_directory(run_dir), "wal")
    os.truncate(wal, wal.stat().st_size // 2)
    # With it the history is kept: see test_damaged_journal.
    (wal.parent / DURABLE_FILE).unlink()
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    done = CliRunner().invoke(commands, ["recover", str(run_dir)])
    assert done.exit_code == ExitCode.DAMAGED, done.output
    assert "nothing is changed; put the wal back from a copy" in done.output
    examined = CliRunner().invoke(commands, ["doctor", str(run_dir)])
    assert examined.exit_code == ExitCode.UNHEALTHY
    assert "put the wal back from a copy" in examined.output
    after = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    assert after == before
