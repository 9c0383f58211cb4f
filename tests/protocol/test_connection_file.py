"""``bus.json`` is believed only if nobody else could have written it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from unilab_metrics.errors import ConnectionFileError, ExitCode
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile

FILE = ConnectionFile(
    run_dir="/runs/é",
    journal="00" * 16,
    pid=17,
    started_unix_ns=1_700_000_000_000_000_000,
    boot_id="boot",
    host="node",
    ingest="ipc:///r/i",
    announce="ipc:///r/a",
    fetch="ipc:///r/f",
    launch="key",
)


@pytest.fixture
def bus_dir(tmp_path: Path) -> Path:
    return private_directory(tmp_path / "run" / "bus")


def refused(bus_dir: Path) -> ConnectionFileError:
    with pytest.raises(ConnectionFileError) as caught:
        rendezvous.read(bus_dir)
    return caught.value


def test_what_was_written_is_read(bus_dir: Path):
    rendezvous.write(bus_dir, FILE)
    assert rendezvous.read(bus_dir) == FILE
    assert stat.S_IMODE((bus_dir / "bus.json").stat().st_mode) == 0o600
    assert [entry.name for entry in bus_dir.iterdir()] == ["bus.json"]
    rendezvous.remove(bus_dir)
    rendezvous.remove(bus_dir)
    assert list(bus_dir.iterdir()) == []


def test_paths_of_a_run():
    assert rendezvous.bus_directory(Path("/run")) == Path("/run/bus")
    assert rendezvous.aggregator_lease(Path("/run")) == Path("/run/bus/aggregator.lease")


def test_a_missing_file_or_directory_means_no_live_run(bus_dir: Path):
    assert refused(bus_dir).exit_code == ExitCode.NO_LIVE_RUN
    assert refused(bus_dir / "missing").exit_code == ExitCode.NO_LIVE_RUN


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_file_that_others_may_touch_is_refused(bus_dir: Path, mode: int):
    rendezvous.write(bus_dir, FILE)
    (bus_dir / "bus.json").chmod(mode)
    error = refused(bus_dir)
    assert error.exit_code == ExitCode.REFUSED
    assert f"{mode:04o}" in str(error)


def test_a_directory_that_others_may_enter_is_refused(bus_dir: Path):
    rendezvous.write(bus_dir, FILE)
    bus_dir.chmod(0o755)
    error = refused(bus_dir)
    assert error.exit_code == ExitCode.REFUSED
    assert error.path == bus_dir


def test_a_symlink_is_refused(bus_dir: Path, tmp_path: Path):
    rendezvous.write(bus_dir, FILE)
    (bus_dir / "bus.json").rename(tmp_path / "elsewhere.json")
    (bus_dir / "bus.json").symlink_to(tmp_path / "elsewhere.json")
    assert refused(bus_dir).exit_code == ExitCode.REFUSED
    (tmp_path / "link").symlink_to(bus_dir)
    assert refused(tmp_path / "link").exit_code == ExitCode.REFUSED


def test_a_foreign_owner_is_refused(bus_dir: Path, monkeypatch: pytest.MonkeyPatch):
    rendezvous.write(bus_dir, FILE)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert refused(bus_dir).exit_code == ExitCode.REFUSED


def test_a_later_version_is_refused_whatever_else_it_holds(bus_dir: Path):
    for content in (
        {"version": 2, "pid": "seventeen"},
        {**msgspec.to_builtins(FILE), "version": 0},
    ):
        path = bus_dir / "bus.json"
        path.write_bytes(msgspec.json.encode(content))
        path.chmod(0o600)
        error = refused(bus_dir)
        assert error.exit_code == ExitCode.DAMAGED
        assert "version" in str(error)


def test_a_file_with_further_fields_is_read(bus_dir: Path):
    rendezvous.write(bus_dir, FILE)
    path = bus_dir / "bus.json"
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(FILE), "later": 1}))
    assert rendezvous.read(bus_dir) == FILE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"version": true}',
        b'{"version": 1}',
        b'{"version": 1, "run_dir": 5}',
        b"\xff\xfe",
        b'{"version": ' * 10_000,
        b" " * 100_000,
    ],
    ids=range(11),
)
def test_damage_is_refused(bus_dir: Path, content: bytes):
    path = bus_dir / "bus.json"
    path.write_bytes(content)
    path.chmod(0o600)
    assert refused(bus_dir).exit_code == ExitCode.DAMAGED
