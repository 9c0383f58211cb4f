"""What ``close()`` does about an aggregator that dies, ends too early or cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, processes, start
from real_runs import fastest_s, only_run, until

TRAINING = """
import os, sys, time
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(50):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
while publisher.unsent and sys.argv[3:] == ["sent"]:
    time.sleep(0.02)
print("logged", flush=True)
sys.stdin.readline()
while not publisher.errors and sys.argv[3:] == ["errors"]:
    time.sleep(0.02)
print("closing", flush=True)
began_s = time.monotonic()
delivered = publisher.close(float(sys.argv[2]))
took_s = time.monotonic() - began_s
print(delivered, publisher.unsent, *publisher.errors, flush=True)
print(took_s, flush=True)
"""


def logged(training: subprocess.Popen[str]) -> None:
    assert training.stdout is not None
    assert training.stdout.readline() == "logged\n"


def close_begins(training: subprocess.Popen[str], *, has_logged: bool = False) -> None:
    if not has_logged:
        logged(training)
    assert training.stdin is not None
    assert training.stdout is not None
    training.stdin.write("\n")
    training.stdin.flush()
    assert training.stdout.readline() == "closing\n"


@pytest.mark.slow
def test_an_aggregator_that_was_killed_again_and_again_finishes_the_run_within_close(
    tmp_path: Path,
) -> None:
    # One that never came up would be waited for 10 s only.
    training = start(TRAINING, tmp_path, "60", "sent")
    logged(training)
    pid = 0
    for _ in range(4):
        until(lambda: list(tmp_path.glob("*/*/*/bus/bus.json")), 30.0)
        pid = aggregator_pid(only_run(tmp_path), other_than=pid)
        os.kill(pid, signal.SIGKILL)
    # The next start is seconds away.
    close_begins(training, has_logged=True)
    output = finish(training, timeout_s=90)
    assert output.startswith("True 0 ")
    assert "the aggregator died of signal 9" in output
    ended(only_run(tmp_path))


@pytest.mark.slow
def test_an_aggregator_that_ended_while_we_go_on_is_started_again(tmp_path: Path) -> None:
    """It was made to believe that nobody lives."""
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" aggregate "*) '
        f'[ -e "{tmp_path}/seen" ] || {{ touch "{tmp_path}/seen"; exit 0; }};; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    program.chmod(0o755)
    logs = tmp_path / "logs"
    training = start(TRAINING, logs, "30", UNILAB_METRICS_PYTHON=str(program))
    until((tmp_path / "seen").exists)
    until(lambda: list(logs.glob("*/*/*/bus/bus.json")), 30.0)
    close_begins(training)
    assert finish(training).startswith("True 0 ")
    ended(only_run(logs))


def test_a_spool_at_a_relative_path_is_found_by_the_aggregator(tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r})\n{TRAINING}"
    training = start(code, tmp_path / "logs", "30", UNILAB_METRICS_SPOOL="spool")
    logged(training)
    until(lambda: list(tmp_path.glob("logs/*/*/*/bus/aggregator.lease")), 30.0)
    # Only who looks into the spool finds what a killed process has left.
    training.kill()
    training.communicate()
    run_dir = only_run(tmp_path / "logs")
    assert ended(run_dir).points_per_tag["Loss/value"] == 50
    until(lambda: list((tmp_path / "spool").iterdir()) == [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("UNILAB_METRICS_PYTHON", "/no/python", "could not be started"),
        ("UNILAB_METRICS_RUNTIME", "/tmp/" + "x" * 80, "too long for socket paths"),
    ],
)
def test_the_reason_why_no_aggregator_starts_is_in_the_warning_and_in_the_errors(
    variable: str, value: str, reason: str, tmp_path: Path
) -> None:
    # How long an aggregator takes until it has failed is not the case here.
    training = start(TRAINING, tmp_path, "5", "errors", **{variable: value})
    close_begins(training)
    output, errors = training.communicate(timeout=60)
    assert training.returncode == 0
    assert output.startswith("False 5")
    assert reason in output
    assert errors.count("RuntimeWarning: ") == 1
    assert reason in errors
    assert f"`unilab-metrics recover {only_run(tmp_path)}` delivers them" in errors
    # The last one that was started may still be on its way to the same end.
    until(lambda: processes("aggregate") == [])


@pytest.mark.slow
def test_an_aggregator_that_never_comes_up_is_not_waited_for_to_the_end(tmp_path: Path) -> None:
    places = (tmp_path / str(n) for n in count())

    def waited_s() -> float:
        training = start(TRAINING, next(places), "60", UNILAB_METRICS_PYTHON="/no/python")
        close_begins(training)
        output, errors = training.communicate(timeout=90)
        assert training.returncode == 0
        assert output.startswith("False 5")
        assert "could not be started" in errors
        return float(output.splitlines()[-1])

    assert 9.0 < fastest_s(waited_s, 11.0) < 11.0
