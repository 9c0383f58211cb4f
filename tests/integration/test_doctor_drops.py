"""What a training could not log is told with its reason, and what helps, where people look."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cut_off_run import end, open_run_directory, source

from unilab_metrics.cli.root import commands
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.refusals import MISTAKES
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.doctor import drops


def refused_run(run_dir: Path, calls: Callable[[Publisher], Any]) -> Path:
    """A whole run of one process that only made these calls."""
    open_run_directory(run_dir)
    publisher = source()
    calls(publisher)
    end(publisher)
    recover_run(run_dir)
    return run_dir


def dropped(run_dir: Path) -> list[tuple[str, str | None]]:
    done = CliRunner().invoke(commands, ["doctor", "--json", str(run_dir)])
    found = json.loads(done.output)["findings"]
    return [(f["finding"], f["fix"]) for f in found if "has dropped" in f["finding"]]


@pytest.mark.parametrize(
    ("calls", "text", "fix"),
    [
        (
            lambda p: [p.log({"a": 1.0}, iteration=k + 0.5) for k in range(8)],
            "8 steps not whole or beyond 2^50 (iteration: 0.5 is no number of steps)",
            "give whole numbers, as int(step), for iteration, env_steps and step",
        ),
        (
            lambda p: p.log({f"a{n}": None for n in range(5)}, iteration=1),
            (
                "5 values that are no number (a0: a value of type NoneType is no number; a1: a value of type "
                "NoneType is no number; a2: a value of type NoneType is no number; and 2 things "
                "more)"
            ),
            "log numbers, or tensors and arrays with one element",
        ),
        (
            lambda p: p.log({"": 1.0, "\x1b[31m" * 200: 1.0, "b": "x"}, iteration=1),
            None,
            (
                "give each tag a name of 1 to 512 bytes that is not the logger's own; log numbers, "
                "or tensors and arrays with one element"
            ),
        ),
    ],
)
def test_doctor_says_why_and_what_helps(
    calls: Callable[[Publisher], Any], text: str | None, fix: str, run_dir: Path
) -> None:
    ((finding, advice),) = dropped(refused_run(run_dir, calls))
    assert advice == fix
    assert finding.isprintable()
    if text is not None:
        assert finding == f"the learner of rank 0 has dropped {text}"


def test_every_mistake_of_a_training_has_something_that_helps() -> None:
    assert set(MISTAKES) <= drops.FIXES.keys()


@pytest.mark.parametrize("how", ["--once", "--lines"])
def test_lines_about_a_run_without_any_iteration_say_why(how: str, run_dir: Path) -> None:
    refused_run(run_dir, lambda p: p.log({"a": 1.0}, iteration="1"))
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "attach", str(run_dir), how],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "run ended: completed  W dropped: 1 step not whole or beyond 2^50 (learner of rank 0)  iteration: '1' is no number "
        "of steps\n"
    )
