"""Each file of a finished run, damaged in each way, under each command: a documented exit code
instead of a traceback, and nothing that was whole is lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import whole_run

from unilab_metrics.cli.root import commands
from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.errors import ExitCode
from unilab_metrics.run.verifying.event_points import points_per_tag
from unilab_metrics.transport.rendezvous import bus_directory

ITERATIONS = 6
CODES = {
    "verify": {ExitCode.OK, ExitCode.UNEXPECTED, ExitCode.DAMAGED, ExitCode.VERIFICATION_FAILED},
    "doctor": {ExitCode.OK, ExitCode.UNHEALTHY},
    "ls": {ExitCode.OK},
    "recover": {ExitCode.OK, ExitCode.UNEXPECTED, ExitCode.DAMAGED},
}
FAST = ("bit", "other types", "truncated")
SLOW = ("emptied", "first bit", "pipe", "directory", "removed", "symlink", "version")


def damage(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    match kind:
        case "truncated":
            os.truncate(path, len(data) // 2)
        case "emptied":
            os.truncate(path, 0)
        case "bit" | "first bit":
            data[0 if kind == "first bit" else len(data) // 2] ^= 0x10
            path.write_bytes(data)
        case "directory":
            path.unlink()
            path.mkdir(mode=0o700)
        case "removed":
            path.unlink()
        case "pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
        case "symlink":
            path.rename(path.with_name("moved"))
            path.symlink_to("moved")
        case "version" if path.suffix == ".json":
            path.write_text(json.dumps(json.loads(data) | {"version": 99}))
        case "version":
            data[4] = 99
            path.write_bytes(data)
        case _ if path.suffix == ".json":
            path.write_text(json.dumps(_other_types(json.loads(data))))
        case _:
            path.write_text("no record\n")


def _other_types(value: object) -> object:
    if isinstance(value, dict) and value:
        return {key: _other_types(inner) for key, inner in value.items()}
    return 5 if isinstance(value, str) else "x"


def contents(run_dir: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


def of_kind(kind: str, run_dir: Path) -> Iterator[tuple[Path, str]]:
    """A damaged copy of the run for each of its files, and the file's name."""
    whole_run(run_dir, ITERATIONS)
    whole = run_dir.parent / "whole"
    run_dir.rename(whole)
    for file in sorted(path for path in whole.rglob("*") if path.is_file()):
        shutil.copytree(whole, run_dir)
        damage(run_dir / file.relative_to(whole), kind)
        yield run_dir / file.relative_to(whole), f"{file.name} {kind}"
        run_dir.rename(run_dir.with_name(f"done-{file.name}"))


def run(command: str, run_dir: Path, case: str) -> str:
    arguments = ["--logs", str(run_dir)] if command == "ls" else [str(run_dir)]
    done = CliRunner().invoke(commands, [command, *arguments])
    assert isinstance(done.exception, SystemExit | None), (case, command, done.exc_info)
    assert done.exit_code in CODES[command], (case, command, done.output)
    assert done.output, (case, command)
    return done.output


@pytest.mark.parametrize("kind", [*FAST, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)])
def test_a_damaged_file_costs_no_command_its_words(kind: str, run_dir: Path) -> None:
    for damaged, case in of_kind(kind, run_dir):
        before = contents(run_dir)
        points = sum(points_per_tag(run_dir).values()) if damaged.is_file() else 0
        said = [run(command, run_dir, case) for command in ("verify", "doctor")]
        run("ls", run_dir, case)
        assert contents(run_dir) == before, case
        if kind in {"pipe", "directory", "truncated"}:
            # The settings and summaries are told by their names, halves of a journal by theirs.
            words = {damaged.name, damaged.name.partition("-")[0], "tensorboard"}
            assert any(word in "".join(said) for word in words), (case, said)
        output = run("recover", run_dir, case)
        after = contents(run_dir)
        changed = {p for p in before if after.get(p) != before[p]} - {damaged}
        # Both say how far the run is, and are written again as a whole.
        allowed = {run_dir / RUN_SUMMARY_FILE, bus_directory(run_dir) / "durable"}
        assert changed <= allowed, (case, changed, output)
        if damaged.is_file():
            assert sum(points_per_tag(run_dir).values()) >= points, case
