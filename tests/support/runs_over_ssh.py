"""Trainings that are watched through a real sshd, and what a connection leaves behind."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from loopback_sshd import LoopbackSshd
from real_runs import start, until

PATIENCE_S = 100.0
"""Longer than a training's ``close()`` and than ``attach`` wait by themselves."""
TRAINING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="ppo", task="Toy", run_dir=run_dir) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": 42.0}, iteration=iteration)
        iteration += 1
        time.sleep(0.05)
"""


@contextmanager
def sshd_on_loopback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackSshd]:
    """A running one below ``folder``, which ``attach`` uses, with a place for its sockets there."""
    made = LoopbackSshd(folder / "sshd")
    monkeypatch.setenv("UNILAB_METRICS_SSH", made.ssh)
    (folder / "t").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "t"))
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def training_below(folder: Path, code: str = TRAINING) -> Iterator[Path]:
    """The directory of a run that goes on until the end of the test."""
    made, stop = folder / "it's a run", folder / "stop"
    training = start(code, str(made), str(stop))
    try:
        until((made / "bus" / "bus.json").exists)
        yield made
    finally:
        stop.touch()
        _, errors = training.communicate(timeout=PATIENCE_S)
    assert errors == ""


@pytest.fixture
def watched_run(short_path: Path) -> Iterator[Path]:
    """The directory of one that goes on."""
    with training_below(short_path) as made:
        yield made


def attach(*arguments: str, status: int = 0) -> str:
    """What it prints; with another ``status`` than 0 what it says of that."""
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "attach", *arguments],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def places(sshd: LoopbackSshd) -> list[Path]:
    """Directories of sockets of connections."""
    return list((sshd.folder.parent / "t").glob("um-ssh-*"))


def ssh_children(of: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for one in psutil.Process(of).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [one] if one.name() == "ssh" else []
    return found


def carriers(of: int) -> list[psutil.Process]:
    """Those ssh that carry a connection; they may end at any moment."""
    found: list[psutil.Process] = []
    for one in ssh_children(of):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [one] if "-T" in one.cmdline() else []
    return found


def cut(of: int) -> None:
    """Kill the ssh that carries a view's connection."""
    for one in carriers(of):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def kill_children(of: int) -> None:
    """Kill all of them; some end by themselves with those that were killed before them."""
    for one in psutil.Process(of).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
