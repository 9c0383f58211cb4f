"""Trainings in a process namespace of their own, as in containers, and without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import kill_processes, processes, scalars
from real_runs import only_run, until

from unilab_metrics.run.summary import read_summary

TAG = "Loss/value"
TRAINING = """
import os, sys, time
import unilab_metrics as um
publisher = um.init(algorithm="ppo", task="Toy", log_root=sys.argv[1])
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
def states():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = open(f"/proc/{pid}/stat").read()
        except OSError:
            continue
        found.append(text[text.rfind(")") + 2])
    return found
def helper(word):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word in open(f"/proc/{pid}/cmdline").read().split(chr(0)):
                return int(pid)
        except OSError:
            continue
    return 0
exec(sys.argv[2])
"""
SCRIPT = r"""
cd / && "$0" -c "$1" "$2" "$3"
code=$? turns=0
helpers() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n" | grep -cx "unilab_metric[s]"; }
while [ "$(helpers)" != 0 ] && [ $turns -lt 300 ]; do
    turns=$((turns + 1))
    sleep 0.1
done
echo "helpers: $(helpers)"
# While it waits for a command, a shell takes in who has ended meanwhile.
turns=0
while ps -eo stat= | grep -q "^Z" && [ $turns -lt 300 ]; do
    turns=$((turns + 1))
    sleep 0.1
done
ps -eo stat=,args=
exit $code
"""


def isolated(*command: str, namespaces: str = "--pid") -> subprocess.Popen[str]:
    options = {"--pid": ["--pid", "--fork", "--mount-proc"], "--net": ["--net"]}[namespaces]
    tried = subprocess.run(["unshare", *options, "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"unshare {namespaces} is not permitted here")
    return subprocess.Popen(
        ["unshare", *options, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(autouse=True)
def _kill_the_rest() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    kill_processes()


def whole(run_dir: Path, status: str = "completed") -> None:
    assert scalars(run_dir)[TAG] == [(k, 0.0) for k in range(10)]
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == status
    assert summary["bus"]["backends"] == {"tensorboard": summary["bus"]["updates"]}


@pytest.mark.parametrize(
    ("ending", "code", "status"),
    [
        pytest.param("", 0, "completed", marks=pytest.mark.slow),
        pytest.param("publisher.close(); sys.exit(3)", 3, "completed", marks=pytest.mark.slow),
        ("raise ValueError('x')", 1, "failed"),
    ],
)
def test_a_training_that_is_pid_1_ends_when_everything_is_written(
    ending: str, code: int, status: str, tmp_path: Path
) -> None:
    """Every helper is killed with it."""
    begin = "assert os.getpid() == 1\n"
    with isolated(sys.executable, "-c", TRAINING, str(tmp_path), begin + ending) as training:
        _, errors = training.communicate(timeout=60)
    assert training.returncode == code, errors
    whole(only_run(tmp_path), status)
    until(lambda: processes() == [])


@pytest.mark.slow
def test_a_training_that_is_pid_1_leaves_no_zombie_of_its_helpers(tmp_path: Path) -> None:
    """Its aggregator's writer becomes its own child when the aggregator is killed."""
    code = """
import signal
def wait(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
wait(lambda: helper("write"))
time.sleep(1.5)
first = helper("write")
os.kill(helper("aggregate"), signal.SIGKILL)
wait(lambda: helper("write") not in (0, first))
wait(lambda: "Z" not in states())
assert publisher.close(), publisher.errors
"""
    with isolated(sys.executable, "-c", TRAINING, str(tmp_path), code) as training:
        _, errors = training.communicate(timeout=90)
    assert training.returncode == 0, errors
    whole(only_run(tmp_path))


@pytest.mark.slow
def test_a_shell_that_is_pid_1_sees_every_process_end(tmp_path: Path) -> None:
    ending = "assert os.getpid() != 1; sys.exit(3)"
    with isolated("sh", "-c", SCRIPT, sys.executable, TRAINING, str(tmp_path), ending) as container:
        output, errors = container.communicate(timeout=100)
    assert container.returncode == 3, errors
    assert output.startswith("helpers: 0\n")
    assert not any(line.startswith("Z") for line in output.splitlines()), output
    whole(only_run(tmp_path))


def test_without_a_network_and_without_close_the_helpers_are_gone_soon(tmp_path: Path) -> None:
    """BR-25."""
    command = (sys.executable, "-c", TRAINING, str(tmp_path), "")
    with isolated(*command, namespaces="--net") as training:
        _, errors = training.communicate(timeout=60)
    assert (training.returncode, errors) == (0, "")
    until(lambda: processes() == [], 10.0)
    whole(only_run(tmp_path))
