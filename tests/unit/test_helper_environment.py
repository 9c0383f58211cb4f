"""A helper works in the run's bus directory: what the user named is found from there too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unilab_metrics.run.processes import helper_environment, helper_python, last_log_line


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"UNILAB_METRICS_SPOOL": "spool", "UNILAB_METRICS_RUNTIME": "/run/here"}
    helper = helper_environment(environ)
    assert helper["UNILAB_METRICS_SPOOL"] == str(tmp_path / "spool")
    assert helper["UNILAB_METRICS_RUNTIME"] == "/run/here"


def test_a_helper_sees_no_gpu_and_knows_which_ones_the_training_has() -> None:
    helper = helper_environment({"CUDA_VISIBLE_DEVICES": "2,3"})
    assert (helper["CUDA_VISIBLE_DEVICES"], helper["UNILAB_METRICS_GPUS"]) == ("", "2,3")
    # A helper's own helpers must not take its blindness for the training's.
    assert helper_environment(helper)["UNILAB_METRICS_GPUS"] == "2,3"
    assert helper_environment({"CUDA_VISIBLE_DEVICES": ""})["UNILAB_METRICS_GPUS"] == ""
    assert "UNILAB_METRICS_GPUS" not in helper_environment({})


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


def test_the_last_words_of_a_helper_are_the_last_line_of_its_log(run_dir: Path) -> None:
    log = run_dir / "bus" / "aggregator.log"
    assert last_log_line(run_dir, log.name) == ""
    log.parent.mkdir()
    log.write_bytes(b"x" * 5000 + b"\nfirst\nunilab-metrics: no\xff room\n\n")
    assert last_log_line(run_dir, log.name) == "no\ufffd room"
    log.write_bytes(b"")
    assert last_log_line(run_dir, log.name) == ""
