"""``recover`` on a disk without room: it says what to do, and has cost nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import LAUNCH, kill, log, open_run_directory, source
from small_disks import filled, small_disk

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.places import spool_root
from unilab_metrics.transport.rendezvous import bus_directory

FRAMES = 40


def recover(run_dir: Path) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["recover", str(run_dir), "--timeout", "0.2"])
    return done.exit_code, done.output


def contents(*folders: Path) -> dict[Path, bytes]:
    found = (path for folder in folders for path in folder.rglob("*"))
    return {path: path.read_bytes() for path in found if path.is_file() and path.name != "ballast"}


def frames_in(files: dict[Path, bytes]) -> dict[Path, bytes]:
    return {path: data for path, data in files.items() if path.name.startswith("spool-")}


@pytest.fixture
def cut_off(run_dir: Path) -> Iterator[Path]:
    """A run whose journal lies on a file system of its own, and whose frames in a spool."""
    with small_disk(bus_directory(run_dir), 1024):
        open_run_directory(run_dir)
        publisher = source()
        log(publisher, range(FRAMES))
        kill(publisher)
        yield run_dir


@pytest.mark.parametrize("leave_bytes", [0, 4096])
def test_a_full_disk_is_named_with_what_it_takes_and_nothing_is_lost(
    leave_bytes: int, cut_off: Path
) -> None:
    bus, spools = bus_directory(cut_off), spool_root() / LAUNCH
    before = contents(bus, spools)
    with filled(bus, leave_bytes=leave_bytes):
        code, said = recover(cut_off)
        after = contents(bus, spools)
        assert code == ExitCode.UNEXPECTED
        (line,) = said.splitlines()
        assert re.search(
            rf"{re.escape(str(bus))}\S*: .*; the recovery needs about 2 MiB on that file system, "
            rf"{leave_bytes // 1024} KiB are free\. Nothing is lost: what was written stays, the rest "
            r"waits where it is\. Free that much and run it again$",
            line,
        ), line
        assert "Errno" not in line
        # The frames are where they were, and where there was no room at all, so is all the rest.
        assert frames_in(after) == frames_in(before) != {}
        assert leave_bytes or after == before
    check_complete(cut_off)


def test_a_backend_without_room_is_named_with_its_path_and_completed_later(cut_off: Path) -> None:
    bus = bus_directory(cut_off)
    with filled(bus, leave_bytes=16_384):
        code, said = recover(cut_off)
        assert code == ExitCode.UNEXPECTED
        (line,) = (line for line in said.splitlines() if line.startswith("tensorboard"))
        lease = bus / "writer-tensorboard.lease"
        assert line == (
            f"tensorboard  update 0 of 43: {lease}: No space left on device; free space and run it again"
        )
    check_complete(cut_off)


def check_complete(run_dir: Path) -> None:
    code, said = recover(run_dir)
    verified = verify_run(run_dir)
    assert (code, verified.lost_frames) == (ExitCode.OK, 0), said
    assert verified.history.updates == FRAMES
    assert dict(verified.points_per_tag) == {"Loss/value": FRAMES}
