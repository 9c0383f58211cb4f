"""What a command says reaches any output, or its exit code says that it did not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import whole_run

from unilab_metrics.cli.output import prepare_streams
from unilab_metrics.cli.root import commands
from unilab_metrics.storage.path_text import path_of, path_text, shown_path
from unilab_metrics.transport import registry

NAMES = [
    b"a run",
    b"a\nrun",
    b"[bold]r[/]",
    b"r\xffun",
    b"r\x1b[31mun\x07",
    b"x" * 255,
    b"-r",
    b"%s",
]


@pytest.fixture(params=NAMES, ids=ascii)
def named_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    run_dir = tmp_path / "logs" / os.fsdecode(request.param)
    whole_run(run_dir, 2)
    return run_dir


def in_shell(command: str, run_dir: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    program = f"{sys.executable} -m unilab_metrics {command}"
    return subprocess.run(
        ["bash", "-c", program, "bash", run_dir],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_every_command_takes_any_name_and_shows_no_control_character(named_run: Path) -> None:
    for words in (
        ["verify"],
        ["doctor", "-v"],
        ["doctor", "--json"],
        ["recover"],
        ["recover", "--json"],
    ):
        done = CliRunner().invoke(commands, [*words, "--", str(named_run)])
        assert done.exit_code == 0, (words, done.output, done.exc_info)
        assert not {"\x1b", "\x07"} & set(done.output), words
    listed = CliRunner().invoke(commands, ["ls", "--logs", str(named_run.parent)])
    assert (listed.exit_code, listed.output.count("\n")) == (0, 1)
    assert listed.output.startswith("done ")


def test_a_path_is_the_same_after_it_was_text(named_run: Path) -> None:
    text = path_text(named_run)
    assert text.encode().decode() == text
    assert path_of(text) == named_run
    assert shown_path(named_run).encode()


def test_a_run_of_any_name_is_registered(named_run: Path) -> None:
    assert registry.register(named_run, os.getpid())
    assert [run.run_dir for run in registry.starting_runs()] == [named_run]
    registry.unregister(named_run)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", "ü\udcff".encode("utf-8", "surrogateescape")), ("ascii", b"\\xfc\\udcff")],
)
def test_a_name_that_is_no_text_is_written_as_it_is_or_escaped(
    encoding: str, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    prepare_streams()
    print("ü\udcff", end="", flush=True)
    assert raw.getvalue() == expected
    print("\ud800", end="", flush=True)
    assert raw.getvalue() == expected + b"\\ud800"


@pytest.mark.parametrize("redirected", ["> /dev/full", "--help > /dev/full"])
def test_an_output_that_takes_nothing_ends_with_1_and_a_word(
    run_dir: Path, redirected: str
) -> None:
    whole_run(run_dir, 1)
    done = in_shell(f'verify "$1" {redirected}', run_dir)
    assert done.returncode == 1
    assert done.stderr.startswith(b"unilab-metrics: ")
    assert done.stderr.endswith(b"No space left on device\n")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "sink",
    [
        "| true; exit ${PIPESTATUS[0]}",
        "2>&1 | true; exit ${PIPESTATUS[0]}",
        ">&-",
        ">&- 2>&-",
        "<&- > /dev/null",
        "2> /dev/full",
    ],
)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        *(
            (f'{name} "$1"', 0)
            for name in ("verify", "verify --json", "doctor", "recover", "write")
        ),
        ('ls --logs "$1"', 0),
        ("verify nowhere", 3),
        ('verify "$1/bus"', 3),
    ],
)
def test_the_exit_code_stands_whoever_reads(
    run_dir: Path, command: str, code: int, sink: str
) -> None:
    whole_run(run_dir, 1)
    done = in_shell(f"{command} {sink}", run_dir)
    assert done.returncode == code, (command, sink, done)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "utf-8"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_names_reach_outputs_of_any_encoding(tmp_path: Path, environment: dict[str, str]) -> None:
    run_dir = tmp_path / os.fsdecode(b"\xff\xc3\xbc")
    whole_run(run_dir, 1)
    for command in ('doctor -v "$1"', 'recover --json "$1"', 'ls --logs "$1"', 'verify "$1/no"'):
        done = in_shell(command, run_dir, **environment)
        assert done.returncode == (3 if "/no" in command else 0), done
        assert done.stdout or done.stderr
