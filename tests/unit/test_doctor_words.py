"""What ``doctor`` says of late values, and that it gives each advice once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from cut_off_run import open_run_directory
from sources_on_paper import two_learners

from unilab_metrics.cli.root import commands
from unilab_metrics.run.doctor import drops, examination
from unilab_metrics.run.doctor.finding import ERROR, OK, WARNING, Finding


def test_an_advice_that_helps_against_several_things_is_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [
        Finding("backlog", ERROR, "no aggregator", "recover it"),
        Finding("backlog", ERROR, "two spools", "recover it"),
        Finding("disk", WARNING, "full", "make room"),
        Finding("logs", WARNING, "nothing to do"),
        Finding("logs", OK, "well"),
        Finding("logs", WARNING, "nothing to do here"),
    ]
    monkeypatch.setattr(examination, "examine_run", lambda _: iter(findings))
    run_dir = open_run_directory(tmp_path / "run")
    output = CliRunner().invoke(commands, ["doctor", str(run_dir)]).output
    advice = [line.strip() for line in output.splitlines() if line.strip().startswith("->")]
    assert advice == ["-> recover it", "-> as above", "-> make room"]
    as_json = CliRunner().invoke(commands, ["doctor", "--json", str(run_dir)]).output
    assert as_json.count('"fix": "recover it"') == 2


def test_late_values_are_a_warning_with_what_to_do() -> None:
    paper, zero, one = two_learners()
    paper.state.data.sources[one.index].late_values = 450
    found = list(drops.examine(cast("Any", None), paper.state.data.sources))
    assert [(one.subject, one.level) for one in found] == [("backlog", WARNING)]
    assert found[0].text.startswith("450 values of the learner of rank 1 came when the iteration")
    assert "30 s" in found[0].fix
    assert paper.state.data.sources[zero.index].late_values == 0
