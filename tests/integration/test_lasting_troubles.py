"""An event file that will never work is named at once; what may pass is tried, with a word."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source, whole_run

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, StorageFullError
from unilab_metrics.write import writer as writer_module
from unilab_metrics.write.backends import tensorboard
from unilab_metrics.write.backends.event_files import own_files

LONG_S = 60.0
"""A test that waits so long fails."""


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("make", [directory, link_to_itself, pipe])
@pytest.mark.parametrize("command", ["recover", "write"])
def test_what_is_no_event_file_is_named_at_once(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], command: str
) -> None:
    monkeypatch.setattr(writer_module, "GIVE_UP_S", LONG_S)
    whole_run(run_dir)
    (path,) = own_files(run_dir)
    make(path)
    began_s = time.monotonic()
    done = CliRunner().invoke(commands, [command, str(run_dir)])
    assert time.monotonic() - began_s < LONG_S
    assert done.exit_code == ExitCode.UNEXPECTED, done.output
    assert str(path) in str(done.output) + str(done.exception)


def test_what_may_pass_is_tried_and_said(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer_module, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(writer_module, "RETRY_S", 0.05)
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(3))
    end(publisher)

    def refuse(*_: object) -> None:
        raise StorageFullError(run_dir, 28)

    monkeypatch.setattr(tensorboard, "create_file", refuse)
    done = CliRunner().invoke(commands, ["recover", str(run_dir)])
    assert done.exit_code == ExitCode.UNEXPECTED
    said = capfd.readouterr().err
    assert said.count("tensorboard failed: ") == 1
    assert "; trying again for 0.2 s" in said
