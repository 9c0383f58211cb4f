"""The connection file of a live aggregator comes back when somebody removes or edits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unilab_metrics.aggregate import presence
from unilab_metrics.aggregate.presence import Presence, hide
from unilab_metrics.errors import StorageError
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(presence, "_LOOK_INTERVAL_NS", 0)
    return private_directory(tmp_path / "run" / "bus").parent


def shown(run_dir: Path) -> tuple[Presence, ConnectionFile]:
    file = ConnectionFile(
        run_dir=str(run_dir), journal="x", pid=7, started_unix_ns=1, boot_id="x", host="x",
        ingest="x", announce="x", fetch="x",
    )  # fmt: skip
    made = Presence(run_dir, file)
    made.show()
    return made, file


@pytest.mark.parametrize("damage", ["removed", "garbage", "edited", "wide", "symlink"])
def test_a_file_that_somebody_has_removed_or_edited_is_put_in_place_again(
    run_dir: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made, file = shown(run_dir)
    path = run_dir / "bus" / "bus.json"
    if damage == "removed":
        path.unlink()
    elif damage == "garbage":
        path.write_text("{")
    elif damage == "edited":
        path.write_text(path.read_text().replace('"x"', '"y"', 1))
    elif damage == "wide":
        path.chmod(0o666)
    else:
        path.rename(run_dir / "elsewhere")
        path.symlink_to(run_dir / "elsewhere")
    made.look()
    assert rendezvous.read(run_dir / "bus") == file
    assert not path.is_symlink()
    assert "it is in place again" in capfd.readouterr().out
    made.look()
    assert capfd.readouterr().out == ""
    hide(run_dir)
    assert not path.exists()


def test_a_file_that_was_only_touched_stays(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made, _ = shown(run_dir)
    path = run_dir / "bus" / "bus.json"
    before = path.stat().st_ino
    path.touch()
    made.look()
    assert path.stat().st_ino == before
    assert capfd.readouterr().out == ""


def test_a_directory_that_is_gone_is_an_error_that_the_caller_counts(run_dir: Path) -> None:
    made, _ = shown(run_dir)
    (run_dir / "bus").rename(run_dir / "moved")
    with pytest.raises(StorageError):
        made.look()
    (run_dir / "moved").rename(run_dir / "bus")
    made.look()
