"""Real writer processes that are killed, told to end, or run into a full disk."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from toy_run import TAGS, ToyRun, expected, points, wait_for

from unilab_metrics.storage.lease import is_free
from unilab_metrics.write.backends.event_encoding import read_mark
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.protos import Event

KILLS = 10
TORN_WRITE = """
import os, signal, sys
from pathlib import Path
from unilab_metrics.write import process, writer
from unilab_metrics.write.backends import event_files

# Several writes from a short history.
writer.RECORDS_PER_TURN = 100
writer.FLUSH_BYTES = 1

number, part = int(sys.argv[2]), float(sys.argv[3])
real_write = os.write
seen = 0

def torn_write(fd, data):
    global seen
    if os.readlink(f"/proc/self/fd/{fd}").endswith(event_files.SUFFIX):
        seen += 1
        if seen == number:
            real_write(fd, data[: int(len(data) * part)])
            os.kill(os.getpid(), signal.SIGKILL)
    return real_write(fd, data)

os.write = torn_write
sys.exit(process.write_run(Path(sys.argv[1]), "tensorboard"))
"""

_ALWAYS = ((1, 1.0), (2, 0.3))
"""The other kills in the middle of a write belong to the slow tests."""


@pytest.fixture
def run(run_dir: Path, short_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(run_dir, short_path)
    yield made
    made.close()


@contextlib.contextmanager
def writer(run: ToyRun) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "unilab_metrics", "write", str(run.run_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.kill()


def raw_points(run: ToyRun) -> list[tuple[int, float, float]]:
    """Every update event in the files as (step, first value, second value), marks checked."""
    found: list[tuple[int, float, float]] = []
    last_mark = 0
    for path in own_files(run.run_dir):
        for record in read_records(path):
            mark = read_mark(record.data)
            if mark is not None:
                assert mark.update >= last_mark
                last_mark = mark.update
                continue
            event = Event.FromString(bytes(record.data))
            if event.HasField("summary"):
                values = {value.tag: value.simple_value for value in event.summary.value}
                assert set(values) == set(TAGS[:2])
                found.append((event.step, values[TAGS[0]], values[TAGS[1]]))
    return found


def check_exactly_once(run: ToyRun) -> None:
    count = run.iteration
    thirds = [float(np.float32(n / 3)) for n in range(1, count + 1)]
    assert raw_points(run) == [(32 * n, thirds[n - 1], float(n)) for n in range(1, count + 1)]
    assert points(run) == expected(count)
    assert points(run, TAGS[0]) == [(32 * n, thirds[n - 1]) for n in range(1, count + 1)]


def finish(run: ToyRun) -> None:
    run.end()
    run.stop_aggregator()
    with writer(run) as process:
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output


@pytest.mark.slow
def test_kills_at_random_times_of_a_catch_up(run: ToyRun) -> None:
    randomly = random.Random(20260301)
    run.updates(20_000)
    killed = 0
    while killed < KILLS:
        with writer(run) as process:
            # Python's start is part of the time: some kills come before the first event.
            try:
                process.wait(randomly.uniform(0.15, 0.6))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
            else:
                run.updates(10_000)
    finish(run)
    check_exactly_once(run)


@pytest.mark.slow
def test_kills_at_random_times_of_a_live_run(run: ToyRun) -> None:
    randomly = random.Random(7)
    run.start_aggregator()
    for _ in range(KILLS):
        with writer(run) as process:
            end_s = time.monotonic() + randomly.uniform(0.3, 0.7)
            while time.monotonic() < end_s:
                run.updates(randomly.randrange(1, 9))
                run.announce(durable=run.update - randomly.randrange(3))
                time.sleep(0.005)
            process.kill()
        wait_for(lambda: is_free(run.bus / "writer-tensorboard.lease"))
    finish(run)
    check_exactly_once(run)


@pytest.mark.parametrize(
    ("number", "part"),
    [
        pytest.param(number, part, marks=[] if (number, part) in _ALWAYS else pytest.mark.slow)
        for number in (1, 2, 3)
        for part in (0.0, 0.3, 0.999, 1.0)
    ],
)
def test_a_kill_in_the_middle_of_a_write(run: ToyRun, number: int, part: float) -> None:
    for _ in range(3):
        run.updates(500)
        command = [sys.executable, "-c", TORN_WRITE, str(run.run_dir), str(number), str(part)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL, done.stderr
    finish(run)
    check_exactly_once(run)


def test_sigterm_ends_a_writer_when_its_run_has_ended(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as process:
        run.updates(5)
        wait_for(lambda: len(points(run)) == 5, run.announce)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        run.updates(5)
        run.announce()
        time.sleep(0.5)
        assert process.poll() is None
        run.end()
        wait_for(
            lambda: process.poll() is not None,
            lambda: (run.hear(), run.announce(ended="completed")),
        )
        assert process.returncode == 0
    check_exactly_once(run)
    assert run.statuses[-1].state == "finished"


@pytest.mark.slow
def test_a_second_sigterm_ends_a_writer_of_a_run_that_goes_on(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as process:
        run.updates(5)
        wait_for(lambda: len(points(run)) == 5, run.announce)
        process.terminate()
        time.sleep(0.1)
        run.updates(5)
        wait_for(lambda: len(points(run)) == 10, run.announce)
        process.terminate()
        # Not finished: whoever supervises it starts it again.
        assert process.wait(60) == 1
    check_exactly_once(run)
    assert is_free(run.bus / "writer-tensorboard.lease")


def test_a_writer_follows_its_aggregator_into_death(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as process:
        run.updates(3)
        wait_for(lambda: len(points(run)) == 3, run.announce)
        run.updates(4)
        run.stop_aggregator()
        assert process.wait(60) == 0
    check_exactly_once(run)


@pytest.mark.slow
def test_a_second_process_is_refused_with_its_exit_code(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as first:
        wait_for(lambda: not is_free(run.bus / "writer-tensorboard.lease"))
        with writer(run) as second:
            output, _ = second.communicate(timeout=60)
        assert second.returncode == 5
        assert f"already at work (pid {first.pid})".encode() in output


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs another process's limits")
def test_a_full_disk_is_waited_out(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as process:
        run.updates(5)
        wait_for(lambda: len(points(run)) == 5, run.announce)
        (path,) = own_files(run.run_dir)
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 300, hard))
        run.updates(50)
        wait_for(
            lambda: run.statuses and run.statuses[-1].state == "failed",
            lambda: (run.announce(), run.hear()),
        )
        assert run.statuses[-1].text.startswith(f"{path}: the process may write no larger")
        assert points(run) == expected(5)
        run.updates(50)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        wait_for(lambda: len(points(run)) == 105, run.announce)
    check_exactly_once(run)


def test_a_log_on_a_full_disk_does_not_end_a_writer(run: ToyRun) -> None:
    run.updates(5)
    command = [sys.executable, "-m", "unilab_metrics", "write", str(run.run_dir)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=full, check=False, timeout=60)
    assert done.returncode == 0
    check_exactly_once(run)


def test_points_survive_a_kill_of_everything(run: ToyRun) -> None:
    run.start_aggregator()
    with writer(run) as process:
        run.updates(50)
        wait_for(lambda: len(points(run)) == 50, run.announce)
        os.kill(process.pid, signal.SIGKILL)
    check_exactly_once(run)


def test_a_writer_process_loads_no_torch_and_no_terminal() -> None:
    code = (
        "import sys; import unilab_metrics.write.process as p;"
        "p.make_backend('tensorboard', p.Path('.'));"
        "print(*sorted({'torch', 'tensorboardX', 'tensorboard', 'textual', 'rich', 'wandb',"
        " 'PIL', 'comet_ml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
