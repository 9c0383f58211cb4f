"""``verify`` compares the backends that a run has: none is as good as any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, log, open_run_directory, source

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import VerificationError
from unilab_metrics.run.bus_settings import read_settings, write_settings
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.write.process import make_backend
from unilab_metrics.write.writer import run_writer


def run_without_backends(run_dir: Path) -> None:
    open_run_directory(run_dir, backends=())
    publisher = source()
    log(publisher, range(5))
    end(publisher)
    assert recover_run(run_dir).is_complete


def verified(run_dir: Path, *options: str) -> str:
    done = CliRunner().invoke(commands, ["verify", str(run_dir), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_run_without_backends_is_whole_without_event_files(run_dir: Path) -> None:
    run_without_backends(run_dir)
    output = verified(run_dir)
    assert "5 iterations, gap-free, completed" in output
    assert "tensorboard" not in output
    assert "behind" not in output
    fields = json.loads(verified(run_dir, "--json"))
    assert (fields["backends"], fields["behind"], fields["points_per_tag"]) == ([], 0, {})


def test_event_files_that_were_written_later_are_compared(run_dir: Path) -> None:
    run_without_backends(run_dir)
    backend = make_backend("tensorboard", run_dir)
    run_writer(run_dir, backend, stop=lambda: True, log=lambda _: None, follow=False)
    assert verify_run(run_dir).points_per_tag == {"Loss/value": 5}
    assert "tensorboard  1 tag, 5 points" in verified(run_dir)


def test_a_backend_that_the_run_has_must_be_there(run_dir: Path) -> None:
    run_without_backends(run_dir)
    launch = read_settings(run_dir).launch
    write_settings(run_dir, launch=launch, backends=("tensorboard",), log_interval=1)
    with pytest.raises(VerificationError, match="tensorboard lacks the last 7 entries"):
        verify_run(run_dir)
