"""What a source has met and lost nothing by is told as such everywhere, and as no loss anywhere."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source

from unilab_metrics.cli.root import commands
from unilab_metrics.publish import losses
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.run.verifying.verify_report import report

TROUBLES = {losses.KEY_REFUSED: 1, losses.KEY_UNUSABLE: 2, losses.STORE_UNUSABLE: 3}
TEXT = "key refused once, key not readable 2 times, torch's store not usable 3 times"


def test_troubles_are_told_and_are_no_losses(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(3))
    for name, times in TROUBLES.items():
        publisher.losses.count(name, times)
    publisher.losses.count(losses.BAD_VALUE, 4)
    assert (publisher.dropped, publisher.troubles) == ({losses.BAD_VALUE: 4}, TROUBLES)
    end(publisher)
    recover_run(run_dir)
    summary = read_summary(run_dir)
    assert summary is not None
    for told in (summary["bus"], summary["bus"]["sources"][0]):
        assert told["dropped_calls"] == {losses.BAD_VALUE: 4}
        assert told["troubles"] == TROUBLES
    verified = verify_run(run_dir)
    assert verified.dropped_calls == {losses.BAD_VALUE: 4}
    (line,) = (line for line in report(verified) if "key refused" in line)
    assert f"dropped: 4 values that are no number, troubles without loss: {TEXT}" in line
    said = CliRunner().invoke(commands, ["doctor", "-v", str(run_dir)]).output
    assert "the learner of rank 0 has dropped 4 values that are no number" in said
    assert f"the learner of rank 0 has met {TEXT}; no frame was lost by it" in said
