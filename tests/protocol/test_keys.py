"""Key files are private, belong together, and never show their secret."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import msgspec
import pytest
import zmq

from unilab_metrics.errors import ExitCode, KeyFileError, UnsafePathError
from unilab_metrics.storage import filesystem, mounts
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import allow_list, keys
from unilab_metrics.transport.allow_list import PUBLISH, WATCH


@pytest.fixture
def bus_dir(tmp_path: Path) -> Path:
    return private_directory(tmp_path / "run" / "bus")


def refusal(path: Path, use: allow_list.Use = WATCH) -> KeyFileError:
    with pytest.raises(KeyFileError) as caught:
        keys.read_client(path, use)
    assert str(path) in str(caught.value)
    return caught.value


def secrets_of(bus_dir: Path) -> list[str]:
    return [
        msgspec.json.decode(path.read_bytes())["secret"]
        for path in keys.key_directory(bus_dir).glob("*.key")
    ]


_PREPARE = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from unilab_metrics.transport import keys
keys.prepare_keys(Path(sys.argv[1]))
keys.new_client(Path(sys.argv[1]) / "keys" / "own.key", "publish", "x" * 40)
"""


@pytest.mark.parametrize("umask", ["000", "077", "777"])
def test_everything_is_private_under_any_umask(bus_dir: Path, umask: str):
    subprocess.run([sys.executable, "-c", _PREPARE, str(bus_dir), umask], check=True, timeout=30)
    folder = keys.key_directory(bus_dir)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {"server.key", "publish.key", "watch.key", "allowed", "own.key"}
    assert {path.name for path in folder.iterdir()} == names
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_keys_survive_and_fit_each_other(bus_dir: Path):
    first = keys.prepare_keys(bus_dir)
    assert keys.prepare_keys(bus_dir) == first
    publish = keys.read_client(keys.key_path(bus_dir, PUBLISH), PUBLISH)
    watch = keys.read_client(keys.key_path(bus_dir, WATCH), WATCH)
    assert publish.server == watch.server == first.public
    assert zmq.curve_public(watch.secret.encode()).decode() == watch.public
    assert len({first.public, publish.public, watch.public}) == 3
    grants = keys.read_allowed(bus_dir).grants
    assert {key: grant.use for key, grant in grants.items()} == {
        publish.public: PUBLISH,
        watch.public: WATCH,
    }


def test_a_revoked_key_stays_revoked_over_restarts(bus_dir: Path):
    keys.prepare_keys(bus_dir)
    path = keys.allowed_path(bus_dir)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("watch")]
    path.write_text("\n".join(lines))
    keys.prepare_keys(bus_dir)
    assert {grant.use for grant in keys.read_allowed(bus_dir).grants.values()} == {PUBLISH}


def test_a_lost_server_key_takes_its_clients_keys_with_it(bus_dir: Path):
    before = keys.prepare_keys(bus_dir)
    (keys.key_directory(bus_dir) / "server.key").unlink()
    after = keys.prepare_keys(bus_dir)
    assert after.public != before.public
    assert keys.read_client(keys.key_path(bus_dir, WATCH), WATCH).server == after.public


def test_a_key_of_another_node_is_added_to_the_list(bus_dir: Path, tmp_path: Path):
    server = keys.prepare_keys(bus_dir)
    public = keys.new_client(tmp_path / "own.key", PUBLISH, server.public)
    keys.add_allowed(bus_dir, [allow_list.render(PUBLISH, public, ranks=[3], name="node 2")])
    grant = keys.read_allowed(bus_dir).grants[public]
    assert (grant.covers(3), grant.covers(2), grant.name) == (True, False, "node 2")
    assert len(keys.read_allowed(bus_dir).grants) == 3
    assert keys.read_client(tmp_path / "own.key", PUBLISH).public == public


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_key_that_others_may_read_is_refused(bus_dir: Path, mode: int):
    keys.prepare_keys(bus_dir)
    path = keys.key_path(bus_dir, WATCH)
    path.chmod(mode)
    error = refusal(path)
    assert error.exit_code == ExitCode.REFUSED
    assert f"{mode:04o}" in str(error)
    assert "chmod 600" in str(error)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symlink_a_directory_and_a_missing_key_are_refused(bus_dir: Path, tmp_path: Path):
    keys.prepare_keys(bus_dir)
    link = tmp_path / "link.key"
    link.symlink_to(keys.key_path(bus_dir, WATCH))
    assert "symlink" in str(refusal(link))
    (tmp_path / "folder.key").mkdir(mode=0o700)
    assert refusal(tmp_path / "folder.key").exit_code == ExitCode.REFUSED
    missing = refusal(tmp_path / "missing.key")
    assert missing.exit_code == ExitCode.REFUSED
    assert "there is no such key file" in str(missing)


def test_a_foreign_key_and_a_foreign_list_are_refused(
    bus_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    keys.prepare_keys(bus_dir)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert "belongs to uid" in str(refusal(keys.key_path(bus_dir, WATCH)))
    with pytest.raises(KeyFileError, match="belongs to uid"):
        keys.read_allowed(bus_dir)


def test_a_planted_link_in_place_of_the_keys_is_refused(bus_dir: Path, tmp_path: Path):
    elsewhere = private_directory(tmp_path / "elsewhere")
    keys.key_directory(bus_dir).symlink_to(elsewhere)
    with pytest.raises(UnsafePathError, match="symlink"):
        keys.prepare_keys(bus_dir)
    keys.key_directory(bus_dir).unlink()
    private_directory(keys.key_directory(bus_dir))
    (keys.key_directory(bus_dir) / "server.key").symlink_to(elsewhere / "server.key")
    with pytest.raises(KeyFileError, match="symlink"):
        keys.prepare_keys(bus_dir)
    assert list(elsewhere.iterdir()) == []


def test_mixed_up_keys_are_named(bus_dir: Path):
    keys.prepare_keys(bus_dir)
    error = refusal(keys.key_path(bus_dir, PUBLISH), WATCH)
    assert "is a key for publishing; watching needs the run's watch.key" in str(error)
    error = refusal(keys.key_path(bus_dir, WATCH), PUBLISH)
    assert "is a key for watching; publishing needs the run's publish.key" in str(error)
    error = refusal(keys.key_directory(bus_dir) / "server.key", WATCH)
    assert "stays where it is" in str(error)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": "x"},
        {"secret": "short"},
        {"public": "p" * 40},
        {"use": "everything"},
        None,
    ],
    ids=str,
)
def test_a_damaged_key_is_refused_and_its_content_stays_secret(
    bus_dir: Path, change: dict[str, object] | None
):
    keys.prepare_keys(bus_dir)
    path = keys.key_path(bus_dir, WATCH)
    content = msgspec.json.decode(path.read_bytes())
    text = msgspec.json.encode({**content, **change}) if change else path.read_bytes()[:-20]
    path.write_bytes(text)
    error = refusal(path)
    assert error.exit_code == ExitCode.DAMAGED
    assert content["secret"] not in "".join(traceback.format_exception(error))


def test_no_representation_shows_a_secret(bus_dir: Path):
    server = keys.prepare_keys(bus_dir)
    client = keys.read_client(keys.key_path(bus_dir, WATCH), WATCH)
    file = keys.KeyFile(use="watch", public="p", secret=client.secret, server="s")
    for shown in (server, client, file):
        for text in (repr(shown), str(shown), f"{shown}", repr([shown]), repr({"k": shown})):
            assert not any(secret in text for secret in secrets_of(bus_dir))


def test_a_file_system_that_ignores_modes_costs_a_warning_only(
    bus_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    keys.prepare_keys(bus_dir)
    real = os.fstat

    def wide(fd: int) -> os.stat_result:
        status = real(fd)
        return os.stat_result((status.st_mode | 0o077, *status[1:]))

    def forbidden(fd: int, mode: int) -> None:
        raise PermissionError("this file system has one mode for all")

    monkeypatch.setattr(os, "fstat", wide)
    monkeypatch.setattr(os, "fchmod", forbidden)
    assert not mounts.keeps_modes(bus_dir)
    filesystem.write_atomic(bus_dir / "x", b"x")
    assert keys.read_client(keys.key_path(bus_dir, WATCH), WATCH).public
    keys.add_allowed(bus_dir, [])
    monkeypatch.undo()
    assert mounts.keeps_modes(bus_dir)
    assert not list(bus_dir.glob(".mode*"))


def test_a_read_only_key_is_as_good(bus_dir: Path):
    keys.prepare_keys(bus_dir)
    path = keys.key_path(bus_dir, WATCH)
    path.chmod(0o400)
    assert keys.read_client(path, WATCH).public


_UNREADABLE = """
import os, sys
from pathlib import Path
from unilab_metrics.errors import KeyFileError
from unilab_metrics.transport import keys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    keys.read_client(Path(sys.argv[1]), "watch")
except KeyFileError as error:
    print(error)
    sys.exit(int(error.exit_code))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_key_that_we_may_not_read_is_named(short_path: Path):
    for folder in (short_path, short_path.parent):
        folder.chmod(0o755)
    path = short_path / "watch.key"
    path.touch(mode=0o000)
    os.chown(path, 65534, 65534)
    done = subprocess.run(
        [sys.executable, "-c", _UNREADABLE, str(path)],
        capture_output=True, text=True, timeout=30, check=False, cwd="/",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout.strip() == f"{path}: cannot be read: Permission denied"
