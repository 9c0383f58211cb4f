"""What a node without the run directory has kept: ``recover --spool`` takes a copy of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from case_runs import scalars
from click.testing import CliRunner
from cut_off_run import LAUNCH, end, log, open_run_directory, source

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.run.verifying.verify_report import report, report_fields

TAG = "Loss/value"


def recover(run_dir: Path, *options: str | Path, code: int = ExitCode.OK) -> str:
    done = CliRunner().invoke(commands, ["recover", str(run_dir), *map(str, options)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(params=["another kernel", "a container of the same one"])
def far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """Rank 1 of two."""
    if request.param == "another kernel":
        monkeypatch.setattr("unilab_metrics.publish.opening.boot_id", lambda: "theirs")
    return source(1, learners=2)


@pytest.fixture
def near(run_dir: Path, far: Publisher, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """Rank 0, on the node of the test."""
    del far
    monkeypatch.undo()
    open_run_directory(run_dir)
    return source(0, learners=2)


def carry_away(publisher: Publisher, place: Path) -> Path:
    """Its spool lies in another place now, below a launch's directory."""
    spool = Path(publisher.identity.spool_path)
    copied = place / LAUNCH
    copied.mkdir(parents=True)
    shutil.copytree(spool, copied / spool.name)
    return copied


def test_both_nodes_are_reduced_together(
    run_dir: Path, tmp_path: Path, far: Publisher, near: Publisher
) -> None:
    for iteration in range(4):
        near.log({TAG: float(iteration)}, iteration=iteration)
        far.log({TAG: iteration + 10.0}, iteration=iteration)
    end(near)
    end(far)
    copied = carry_away(far, tmp_path / "copied")
    shutil.rmtree(far.identity.spool_path)
    report = json.loads(recover(run_dir, "--spool", copied, "--json"))
    assert (report["complete"], report["iterations_sealed"], report["status"]) == (
        True, 4, "completed",
    )  # fmt: skip
    assert report["removed_spools"] == 2
    assert not copied.exists()
    assert scalars(run_dir)[TAG] == [(n, n + 5.0) for n in range(4)]
    verify_run(run_dir)


def test_what_comes_after_the_end_is_written_where_a_tag_is_missing_and_else_counted(
    run_dir: Path, tmp_path: Path, far: Publisher, near: Publisher
) -> None:
    log(near, range(3))
    end(near)
    for iteration in range(3):
        far.log({TAG: 7.0, "Loss/far": float(iteration)}, iteration=iteration)
    end(far)
    copied = carry_away(far, tmp_path / "copied")
    shutil.rmtree(far.identity.spool_path)
    missing = (
        "ranks        1 of 2 ranks came (missing: rank 1); a node that does not see this directory"
    )
    assert missing in recover(run_dir)
    assert missing in recover(run_dir)
    before = scalars(run_dir)
    assert "Loss/far" not in before
    output = recover(run_dir, "--spool", copied)
    assert "\nlate         " in output
    after = scalars(run_dir)
    assert after[TAG] == before[TAG]
    assert after["Loss/far"] == [(n, float(n)) for n in range(3)]
    verified = verify_run(run_dir)
    late = report_fields(verified)["late_values"]
    assert late >= 3
    assert f"late         {late} values for what was complete: in the journal, in no backend" in (
        report(verified)
    )
    output = recover(run_dir)
    assert "nothing to do" in output
    assert "ranks" not in output


def test_a_copy_of_what_the_journal_has_in_part_gives_the_rest(
    run_dir: Path, tmp_path: Path, far: Publisher, near: Publisher
) -> None:
    log(near, range(3))
    end(near)
    far.log({"Loss/far": 0.0}, iteration=0)
    part = carry_away(far, tmp_path / "part")
    far.log({"Loss/far": 1.0}, iteration=1)
    end(far)
    whole = carry_away(far, tmp_path / "whole")
    shutil.rmtree(far.identity.spool_path)
    recover(run_dir, "--spool", part)
    assert scalars(run_dir)["Loss/far"] == [(0, 0.0)]
    recover(run_dir, "--spool", whole)
    assert scalars(run_dir)["Loss/far"] == [(0, 0.0), (1, 1.0)]
    assert verify_run(run_dir).lost_frames == 0
    assert not whole.exists()


def test_a_directory_that_is_not_a_launchs_is_refused(
    run_dir: Path, tmp_path: Path, near: Publisher, far: Publisher
) -> None:
    end(near)
    end(far)
    spool = Path(far.identity.spool_path)
    (tmp_path / "empty").mkdir()
    for place, fault in (
        (spool, "is a single spool"),
        (spool.parent.parent, "holds no spool"),
        (tmp_path / "empty", "holds no spool"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        assert fault in " ".join(recover(run_dir, "--spool", place, code=ExitCode.USAGE).split())
    recover(run_dir)
