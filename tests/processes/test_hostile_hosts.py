"""Hosts that tell nonsense, hang or are noisy, through a real sshd."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_sshd import LoopbackSshd
from real_runs import until
from runs_over_ssh import attach, places, sshd_on_loopback, training_below

from unilab_metrics.storage.filesystem import boot_id

pytestmark = pytest.mark.slow


@pytest.fixture
def sshd(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackSshd]:
    with sshd_on_loopback(short_path, monkeypatch) as made:
        yield made


def run_that_says(folder: Path, **fields: object) -> Path:
    (folder / "bus").mkdir(parents=True)
    told = {
        "version": 1, "run_dir": "/run", "journal": "00", "pid": os.getpid(),
        "started_unix_ns": 8, "boot_id": boot_id(), "host": "node7", "ingest": "ipc:///s.in",
        "announce": "ipc:///s.out", "fetch": "ipc:///s.ask", **fields,
    }  # fmt: skip
    (folder / "bus" / "bus.json").write_text(json.dumps(told))
    return folder


def test_no_file_of_a_host_hangs_a_viewer_or_speaks_to_its_terminal(
    sshd: LoopbackSshd, short_path: Path
) -> None:
    evil = "\x1b[31mEVIL\x1b]0;x\x07"
    foreign = run_that_says(short_path / "a", host=evil, boot_id="z", tcp_announce=f"tcp://{evil}")
    said = attach(f"box:{foreign}", "--once", status=4)
    assert "EVIL" in said
    assert said.strip().isprintable()

    nul = run_that_says(short_path / "b", fetch="ipc:///tmp/a\0b")
    assert "NUL" in attach(f"box:{nul}", "--once", status=6)

    pipe = run_that_says(short_path / "c")
    (pipe / "bus" / "bus.json").unlink()
    os.mkfifo(pipe / "bus" / "bus.json")
    assert "no regular file" in attach(f"box:{pipe}", "--once", status=6)

    dead = run_that_says(short_path / "d")
    said = attach(f"box:{dead}", "--once", status=4)
    assert "channel" not in said
    assert len(said.splitlines()) == 1

    assert "70,0" in attach(f"box:{'x' * 70_000}", "--once", status=2)
    until(lambda: places(sshd) == [])


@pytest.mark.parametrize("shell", ["bash", "csh", "fish"])
def test_a_noisy_login_of_whatever_shell_shows_the_run(
    sshd: LoopbackSshd, short_path: Path, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    key = (sshd.folder / "user_key.pub").read_text()
    noise = "echo Welcome; echo 'um-x begin'; echo Maintenance at noon >&2"
    command = f'{noise}; exec {program} -c \\"$SSH_ORIGINAL_COMMAND\\"'
    (sshd.folder / "authorized").write_text(f'command="{command}" {key}')
    with training_below(short_path) as run_dir:
        assert "Loss/value 42" in attach(f"box:{run_dir}", "--once", "--plain")
