"""Spools of dead processes: only what lies where our spools lie is read or removed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.orphans import remove_spool
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.identity import Identity, SourceKey


def identity(spool_path: str) -> Identity:
    return Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", spool_path, "", 0, 0)


@pytest.mark.parametrize("claimed", ["", ".", "..", "/", "relative/spool", "spools/a"])
def test_identity_cannot_name_a_directory_outside_the_spools(
    claimed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spools" / "a").mkdir(parents=True)
    directories = SpoolDirectories([tmp_path / "spools"])
    assert directories.spool_of(identity(claimed)) is None


def test_identity_cannot_climb_out_of_the_spools(tmp_path: Path) -> None:
    (tmp_path / "spools").mkdir()
    (tmp_path / "precious").mkdir()
    directories = SpoolDirectories([tmp_path / "spools"])
    assert directories.spool_of(identity(f"{tmp_path}/spools/../precious")) is None
    assert directories.spool_of(identity(f"{tmp_path}/precious")) is None
    (tmp_path / "spools" / "link").symlink_to(tmp_path / "precious")
    assert directories.spool_of(identity(f"{tmp_path}/spools/link")) is None


def test_spool_below_the_launchs_directory_is_found(tmp_path: Path) -> None:
    spool = tmp_path / "spools" / "a"
    spool.mkdir(parents=True)
    directories = SpoolDirectories([tmp_path / "spools"])
    assert directories.spool_of(identity(str(spool))) == spool


def test_removing_a_spool_leaves_foreign_files_and_their_directory(tmp_path: Path) -> None:
    for name in ("spool-000001-000000", "lease", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    remove_spool(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_removing_a_spool_removes_its_directory_when_nothing_else_is_there(tmp_path: Path) -> None:
    spool = tmp_path / "a"
    spool.mkdir()
    (spool / "spool-000001-000000").write_bytes(b"x")
    remove_spool(spool)
    assert not spool.exists()


def test_a_dead_process_waits_for_the_live_one_that_had_its_place_first(tmp_path: Path) -> None:
    def spool(name: str, started: int) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        claim = msgspec.structs.replace(
            identity(str(directory)), started_mono_ns=started, boot_id="another"
        )
        record = encode_record(RecordKind.IDENTITY, 0, encode_payload(claim))
        (directory / "spool-000001-000000").write_bytes(record)
        return directory

    dead = spool("dead", 5)
    (dead / "lease").touch()
    directories = SpoolDirectories([tmp_path])
    assert [orphan.directory for orphan in directories.orphans(set())] == [dead]
    later = Lease.create(spool("later", 6), "lease", b"")
    assert [orphan.directory for orphan in directories.orphans(set())] == [dead]
    first = Lease.create(spool("first", 4), "lease", b"")
    assert list(directories.orphans(set())) == []
    assert [orphan.directory for orphan in directories.orphans({first.path.parent})] == [dead]
    later.release()
    first.release()
