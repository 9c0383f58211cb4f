"""What several tests of real processes stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import kill_processes
from loopback_sshd import LoopbackSshd
from runs_over_ssh import sshd_on_loopback
from watched_trainings import PrintingTraining


@pytest.fixture
def sshd(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackSshd]:
    """A machine that is reached over ssh; the test is skipped where there can be none."""
    with sshd_on_loopback(short_path, monkeypatch) as made:
        yield made


@pytest.fixture
def training(tmp_path: Path) -> Iterator[PrintingTraining]:
    """One that is yet to be started; nothing of it is left after the test."""
    yield PrintingTraining(tmp_path / "run")
    kill_processes()
