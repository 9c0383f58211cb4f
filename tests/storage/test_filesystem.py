"""Private directories and files, and where sockets, state and spools go."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from unilab_metrics.errors import SpoolError, StorageError, UnsafePathError
from unilab_metrics.storage import filesystem, mounts, places
from unilab_metrics.storage.filesystem import (
    boot_id,
    check_private,
    private_directory,
    read_private,
    write_atomic,
)
from unilab_metrics.storage.places import (
    fits_shared_memory,
    held_bytes,
    runtime_directory,
    spool_candidates,
    spool_root,
    state_directory,
)

MIB = 1024 * 1024


class Space(NamedTuple):
    f_bavail: int
    f_frsize: int = 4096


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNILAB_METRICS_RUNTIME")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_private_directory_is_made_with_its_parents(tmp_path: Path):
    before = os.umask(0o022)
    try:
        made = private_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert mode_of(made) == 0o700
    assert mode_of(made.parent) == 0o755
    assert private_directory(made) == made


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_lets_others_in_is_refused_and_not_changed(tmp_path: Path, mode: int):
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(UnsafePathError, match=f"{mode:04o}"):
        private_directory(path)
    assert mode_of(path) == mode


def test_a_symlink_or_a_file_is_no_private_directory(tmp_path: Path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").touch(mode=0o600)
    for name in ("link", "dangling", "file"):
        with pytest.raises(UnsafePathError, match=r"a symlink|no directory"):
            private_directory(tmp_path / name)
    assert not (tmp_path / "nothing").exists()


def test_a_foreign_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = private_directory(tmp_path / "d")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafePathError, match=f"uid {owner}"):
        private_directory(path)


def test_a_private_file_is_read_and_others_are_refused(tmp_path: Path):
    path = tmp_path / "f"
    write_atomic(path, b"secret")
    assert read_private(path, 100) == b"secret"
    with pytest.raises(StorageError, match="more than 5"):
        read_private(path, 5)
    path.chmod(0o644)
    with pytest.raises(UnsafePathError, match="0644"):
        read_private(path, 100)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UnsafePathError, match="symlink"):
        read_private(tmp_path / "link", 100)
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "missing", 100)


def test_a_fifo_does_not_hold_up_the_reader(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UnsafePathError, match="no regular file"):
        read_private(tmp_path / "fifo", 100)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_an_atomic_write_replaces_the_file_and_sets_its_mode(tmp_path: Path, mode: int):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    before = os.umask(0o077)
    try:
        write_atomic(path, b"new" * 1000, mode, sync=True)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new" * 1000
    assert mode_of(path) == mode
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_failed_atomic_write_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_an_atomic_write_over_a_symlink_does_not_follow_it(tmp_path: Path):
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


def test_the_boot_id_is_the_same_in_every_process():
    script = "from unilab_metrics.storage.filesystem import boot_id; print(boot_id())"
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert other.stdout.strip() == boot_id()


def test_without_a_boot_id_file_the_host_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filesystem, "_BOOT_ID_FILE", tmp_path / "missing")
    monkeypatch.setattr(sys, "platform", "freebsd")
    assert boot_id() == f"host-{os.uname().nodename}"


def test_the_runtime_directory_is_private_and_short(short_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
    made = runtime_directory()
    assert made == short_path / "unilab-metrics"
    assert mode_of(made) == 0o700
    assert runtime_directory() == made


def test_a_chosen_runtime_directory_wins(short_path: Path, monkeypatch):
    monkeypatch.setenv("UNILAB_METRICS_RUNTIME", str(short_path / "mine"))
    assert runtime_directory() == short_path / "mine"
    (short_path / "mine").chmod(0o755)
    below = short_path / "mine" / f"unilab-metrics-{os.getuid()}"
    assert runtime_directory() == below
    assert mode_of(below) == 0o700
    assert places.runtime_places() == [below]


def test_without_a_session_directory_sockets_go_to_the_temporary_one(short_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    for value in ("", "relative", str(short_path / "missing")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        assert runtime_directory() == short_path / f"unilab-metrics-{os.getuid()}"


def test_the_login_sessions_own_directory_is_passed_over(short_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    assert runtime_directory() == short_path / f"unilab-metrics-{os.getuid()}"


def test_a_taken_or_long_candidate_is_passed_over(short_path: Path, monkeypatch):
    session = short_path / "session"
    (session / "unilab-metrics").mkdir(parents=True)
    (session / "unilab-metrics").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    expected = short_path / f"unilab-metrics-{os.getuid()}"
    assert runtime_directory() == expected
    long = short_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert runtime_directory() == expected


def test_an_unusable_chosen_runtime_directory_is_an_error(short_path: Path, monkeypatch):
    monkeypatch.setenv("UNILAB_METRICS_RUNTIME", str(short_path / ("x" * 60)))
    with pytest.raises(StorageError, match="too long"):
        runtime_directory()
    (short_path / "file").touch()
    monkeypatch.setenv("UNILAB_METRICS_RUNTIME", str(short_path / "file" / "below"))
    with pytest.raises(StorageError, match="UNILAB_METRICS_RUNTIME is not usable"):
        runtime_directory()


def test_the_state_directory_follows_xdg_and_else_lies_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_directory() == tmp_path / "state" / "unilab-metrics"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_directory() == tmp_path / "home" / ".local" / "state" / "unilab-metrics"


def test_a_spool_goes_to_shared_memory_while_there_is_room(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("UNILAB_METRICS_SPOOL")
    root = spool_root(shared_memory=tmp_path, statvfs=lambda _: Space(MIB))
    assert root == tmp_path / f"unilab-metrics-{os.getuid()}"
    assert mode_of(root) == 0o700


@pytest.mark.parametrize(
    ("held", "free", "fits"),
    [
        (0, 0, False),
        (0, 16 * MIB - 1, False),
        (0, 16 * MIB, True),
        (2 * MIB - 1, 16 * MIB, True),
        (2 * MIB, 16 * MIB, False),
        (64 * MIB - 1, 1024 * MIB, True),
        (64 * MIB, 1024 * MIB, False),
    ],
)
def test_shared_memory_holds_64_mib_or_an_eighth_of_what_is_free(held: int, free: int, fits: bool):
    assert fits_shared_memory(held, free) is fits


def test_held_bytes_counts_every_file_below_and_follows_no_link(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_bytes(bytes(1000))
    (tmp_path / "g").write_bytes(bytes(24))
    (tmp_path / "loop").symlink_to(tmp_path)
    link_bytes = (tmp_path / "loop").lstat().st_size
    assert held_bytes(tmp_path) == 1024 + link_bytes
    assert held_bytes(tmp_path / "missing") == 0


def test_a_full_or_missing_shared_memory_leads_to_a_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("UNILAB_METRICS_SPOOL")
    shared, disk = tmp_path / "shm", tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(places, "_TEMPORARY", (disk, disk))
    monkeypatch.setattr(places, "is_local_filesystem", lambda _: True)
    expected = disk / f"unilab-metrics-{os.getuid()}"
    assert spool_root(shared_memory=shared) == expected
    shared.mkdir()
    mine = shared / f"unilab-metrics-{os.getuid()}"
    mine.mkdir(mode=0o700)
    (mine / "segment").write_bytes(bytes(2000))
    assert spool_root(shared_memory=shared, statvfs=lambda _: Space(4, 4000)) == expected
    assert spool_candidates(shared)[:2] == [mine, expected]


def test_a_network_file_system_never_holds_a_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNILAB_METRICS_SPOOL")
    monkeypatch.setattr(places, "is_local_filesystem", lambda _: False)
    with pytest.raises(SpoolError, match="not on a local disk"):
        spool_root(shared_memory=tmp_path / "missing")


def test_a_chosen_spool_is_used_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", str(tmp_path / "spool"))
    assert spool_root() == tmp_path / "spool"
    assert spool_candidates() == [tmp_path / "spool"]
    below = tmp_path / "spool" / f"unilab-metrics-{os.getuid()}"
    for mode in (0o755, 0o1777):
        (tmp_path / "spool").chmod(mode)
        assert spool_root() == below
        assert (mode_of(below), mode_of(below.parent)) == (0o700, mode)
        assert spool_candidates() == [below]
    (tmp_path / "spool").chmod(0o700)
    assert spool_candidates() == [tmp_path / "spool", below]


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_chosen_directory_that_others_may_change_is_refused_with_what_to_do(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
):
    path = short_path / "mine"
    path.mkdir()
    path.chmod(mode)
    for variable, find in (
        ("UNILAB_METRICS_SPOOL", spool_root),
        ("UNILAB_METRICS_RUNTIME", runtime_directory),
    ):
        monkeypatch.setenv(variable, str(path))
        with pytest.raises(StorageError) as caught:
            find()
        text = str(caught.value)
        assert text.startswith(f"{path}: {variable} is not usable: mode 0{mode:o} lets others in;")
        assert text.endswith("; name a directory of your own, of mode 0700")
        assert text.count(str(path)) == 1
    assert list(path.iterdir()) == []


def test_a_chosen_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "spool").mkdir(mode=0o755)
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SpoolError, match="belongs to uid"):
        spool_root()


def test_a_chosen_folder_is_absolute_for_helpers_that_work_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNILAB_METRICS_SPOOL", "spool")
    monkeypatch.setenv("UNILAB_METRICS_RUNTIME", "../run")
    assert spool_root() == tmp_path / "spool"
    assert spool_candidates() == [tmp_path / "spool"]
    assert list(places._runtime_candidates()) == [tmp_path.parent / "run"]


MOUNTS = r"""22 27 0:21 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:5 - nfs4 server:/home rw
31 30 0:41 / /home/local\040disk rw - xfs /dev/sdb1 rw
32 22 0:42 / /data rw - autofs systemd-1 rw
33 22 0:43 / /data rw master:1 - lustre mds:/data rw
nonsense"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/homes/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/run", "nfs4"),
        ("/home/local disk/run", "xfs"),
        ("/data/run", "lustre"),
    ],
)
def test_the_nearest_and_last_mount_tells_the_file_system(path: str, kind: str):
    assert mounts.mounted_kind(MOUNTS, Path(path)) == kind


def test_without_a_mount_table_known_network_places_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mounts, "_MOUNTS_FILE", tmp_path / "missing")
    assert mounts.is_local_filesystem(tmp_path)
    assert not mounts.is_local_filesystem(Path("/net/server/home"))


def test_a_status_is_checked_for_its_kind(tmp_path: Path):
    with pytest.raises(UnsafePathError, match="no regular file"):
        check_private(tmp_path, tmp_path.lstat(), directory=False)
