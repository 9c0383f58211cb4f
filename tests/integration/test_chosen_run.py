"""Which run was meant, where somebody names none."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from unilab_metrics.cli import watch
from unilab_metrics.cli.root import commands
from unilab_metrics.transport import registry


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def replaced(_path: str, command: list[str], _environ: object) -> None:
        found.append(command[3])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execve", replaced)
    monkeypatch.setattr(watch, "find_newest_live_run", lambda: tmp_path / "logs" / "run\x1b")
    return found


@pytest.mark.parametrize("form", ["--lines", "--json", "--plain"])
def test_attach_says_which_run_it_has_found_and_keeps_its_output_clean(
    form: str, opened: list[str], tmp_path: Path
) -> None:
    done = CliRunner().invoke(commands, ["attach", form])
    assert opened == [str(tmp_path / "logs" / "run\x1b")]
    assert done.stdout == ""
    assert done.stderr.startswith(f"newest live run: {Path('logs') / 'run'}")
    assert "\x1b" not in done.stderr


def test_attach_says_nothing_of_a_run_that_was_named(opened: list[str], tmp_path: Path) -> None:
    (tmp_path / "here" / "bus").mkdir(parents=True)
    done = CliRunner().invoke(commands, ["attach", "here", "--lines"])
    assert (opened, done.output) == ([str(tmp_path / "here")], "")


def test_doctor_says_that_it_has_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bus").mkdir()
    found = SimpleNamespace(run_dir=tmp_path)
    monkeypatch.setattr(registry, "look_for_live_run", lambda: found)
    first = CliRunner().invoke(commands, ["doctor"]).output.splitlines()[0]
    assert first == f"newest live run: {tmp_path}"
    named = CliRunner().invoke(commands, ["doctor", str(tmp_path)]).output.splitlines()[0]
    assert named == str(tmp_path)
