"""A helper works in the run's bus directory: what the user named is found from there too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unilab_metrics.run.processes import helper_environment, helper_python


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"UNILAB_METRICS_SPOOL": "spool", "UNILAB_METRICS_RUNTIME": "/run/here"}
    helper = helper_environment(environ)
    assert helper["UNILAB_METRICS_SPOOL"] == str(tmp_path / "spool")
    assert helper["UNILAB_METRICS_RUNTIME"] == "/run/here"


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("", sys.executable),
        ("python3.12", "python3.12"),
        ("/opt/python", "/opt/python"),
        ("venv/bin/python", "{here}/venv/bin/python"),
    ],
)
def test_an_interpreter_by_path_becomes_absolute(
    chosen: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert helper_python({"UNILAB_METRICS_PYTHON": chosen}) == found.format(here=tmp_path)
