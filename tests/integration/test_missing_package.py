"""A package that only some commands need and that is not there is named, with what helps."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source, whole_run

from unilab_metrics.aggregate.writers import RESTARTING, Writers
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, MissingPackageError
from unilab_metrics.run.launching.report import report_lines
from unilab_metrics.write.backends import protos
from unilab_metrics.write.process import make_backend
from unilab_schema.control import BackendStatus
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.feeding.summary import summary_in
from unilab_sidecar.picture import Journal, Picture

NEEDS = "the TensorBoard backend needs the package tensorboardX: pip install tensorboardX"


@pytest.fixture
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name == "tensorboardX" else find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    for name in ("Event", "DecodeError", "SESSION_START", "STRING_TENSOR"):
        monkeypatch.delitem(vars(protos), name, raising=False)
    for name in [name for name in sys.modules if name.startswith("tensorboardX")]:
        monkeypatch.delitem(sys.modules, name)


def ask(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(commands, [str(word) for word in words])
    assert isinstance(done.exception, SystemExit | None), done.exc_info
    return done.exit_code, done.output


@pytest.mark.usefixtures("without_tensorboard")
def test_commands_name_it_and_what_completes_the_run(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(3))
    end(publisher)
    _, said = ask("recover", run_dir)
    assert NEEDS in said
    code, said = ask("doctor", run_dir)
    assert code == ExitCode.UNHEALTHY
    assert "cannot be read or written: it needs the package tensorboardX" in said
    assert f"-> pip install tensorboardX && unilab-metrics write {run_dir}" in said
    code, said = ask("write", run_dir)
    assert (code, said) == (ExitCode.UNEXPECTED, f"unilab-metrics: {NEEDS}\n")
    code, said = ask("verify", run_dir)
    assert code == ExitCode.VERIFICATION_FAILED
    assert f"unilab-metrics write {run_dir}" in said


def test_commands_that_read_event_files_name_it_too(
    run_dir: Path, request: pytest.FixtureRequest
) -> None:
    whole_run(run_dir)
    request.getfixturevalue("without_tensorboard")
    assert ask("verify", run_dir) == (ExitCode.UNEXPECTED, f"unilab-metrics: {NEEDS}\n")
    code, said = ask("doctor", run_dir)
    assert code == ExitCode.UNHEALTHY
    assert "it needs the package tensorboardX" in said
    assert re.search(r"^\d+ of \d+ checks passed \(-v shows them\)$", said, re.MULTILINE)
    assert any(NEEDS in line for line in report_lines(run_dir))


@pytest.mark.usefixtures("without_tensorboard")
def test_a_writer_says_it_before_it_begins(run_dir: Path) -> None:
    with pytest.raises(MissingPackageError, match="pip install tensorboardX"):
        make_backend("tensorboard", run_dir)


def test_any_other_package_of_a_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def importing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name}", name="regex._regex")

    monkeypatch.setattr("unilab_metrics.cli.directories.existing_run", importing)
    monkeypatch.setattr("unilab_metrics.cli.verify.existing_run", importing)
    code, said = ask("verify", "logs")
    assert code == ExitCode.UNEXPECTED
    assert said == "unilab-metrics: this command needs the package regex: pip install regex\n"


@pytest.mark.parametrize("package", ["textual", "regex"])
def test_attach_names_what_the_sidecar_lacks(
    package: str, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_run(run_dir)
    find_spec = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name == package else find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    code, said = ask("attach", run_dir, "--once")
    assert code == ExitCode.UNEXPECTED
    assert (
        said == f"unilab-metrics: the sidecar needs the package {package}: pip install {package}\n"
    )


class _Process:
    is_finished = False


def test_the_end_of_a_run_says_what_was_wrong_with_a_writer() -> None:
    writers = Writers(None, {"tensorboard": _Process()})  # type: ignore[arg-type, dict-item]
    writers.take(BackendStatus("tensorboard", RESTARTING, 0, text=f"ended with 1 ({NEEDS})"))
    told = f"tensorboard is at update 0 of 24, its writer ended with 1 ({NEEDS})"
    assert writers.behind(24) == [told]
    assert writers.troubles(24) == [f"the writer of tensorboard ended with 1 ({NEEDS})"]
    assert writers.troubles(0) == []


def test_viewers_of_an_ended_run_say_what_a_backend_lacks() -> None:
    text = (
        '{"bus": {"attempt": 1, "updates": 24, "backends": {"tensorboard": 3}, "warnings": '
        '{"the writer of tensorboard ended with 1 (no tensorboardX)": 1}, "sources": []}}'
    )
    summary = summary_in(text.encode(), 1)
    assert summary is not None
    picture = Picture(
        ended="completed",
        backends=summary.backends,
        journal=Journal(24, 24),
        run_dir="/logs/a run",
    )
    assert [alert.text for alert in alerts(picture)] == [
        (
            "tensorboard holds 3 of 24 updates (ended with 1 (no tensorboardX)); "
            "`unilab-metrics write '/logs/a run'` completes it"
        )
    ]
    assert alerts(replace(picture, journal=Journal(3, 3))) == ()
