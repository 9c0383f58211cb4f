"""Publishers and processes: fork, spawn, exit without close, SIGKILL."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from real_runs import fastest_s
from receiving_end import ReceivingEnd
from spooled import payloads, spooled_publisher, values_of

from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.storage import lease
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind
from unilab_schema.frames import IterationFrame
from unilab_schema.identity import RunInfo, SourceKey

SUPPORT = Path(__file__).parents[1] / "support"

# From Python 3.12 on a fork beside another thread (the shipper, ZeroMQ's) is deprecated; a
# training that forks its data loaders does it all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked child that does ``work`` and exits as scripts do."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = 0 if work() in (None, True) else 71
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_parent_child_parent_each_ten_frames(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    for iteration in range(10):
        publisher.log({"a": 1.0}, iteration=iteration)

    def child() -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for iteration in range(10):
                publisher.log({"child": 1.0}, iteration=iteration)
            publisher.event("status", "child")
            gc.collect()
        told = [w for w in caught if issubclass(w.category, RuntimeWarning)]
        return (
            len(told) == 1
            and "connect()" in str(told[0].message)
            and publisher.dropped == {"forked": 11}
            and publisher.close() is False
        )

    assert in_child(child) == 0
    for iteration in range(10, 20):
        publisher.log({"a": 1.0}, iteration=iteration)
    records = payloads(Path(publisher.identity.spool_path))
    frames = [payload for _, kind, payload in records if kind == RecordKind.ITERATION]
    assert [frame.iteration for frame in frames] == list(range(20))
    assert [sequence for sequence, _, _ in records] == list(range(1, 22))
    assert publisher.dropped == {}
    publisher.close(0)


def test_a_forked_child_where_warnings_are_errors_goes_on(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)

    def child() -> bool:
        warnings.simplefilter("error")
        publisher.log({"a": 1.0}, iteration=0)
        return publisher.dropped == {"forked": 1}

    assert in_child(child) == 0
    publisher.close(0)


def test_a_forked_child_neither_frees_nor_removes_what_the_parent_holds(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    publisher.log({"a": 1.0}, iteration=0)
    spool = Path(publisher.identity.spool_path)

    def child() -> None:
        publisher.close(0)
        publisher._at_exit()

    assert in_child(child) == 0
    assert spool.exists()
    assert not lease.is_free(Path(publisher.identity.lease_path))
    publisher.close(0)


def test_a_forked_child_connects_with_its_own_incarnation(tmp_path: Path, short_path: Path) -> None:
    publisher = spooled_publisher(tmp_path, role="collector")
    publisher.log({"parent": 1.0})
    end = ReceivingEnd(short_path)
    bus = end.find_bus()
    pid = os.fork()
    if pid == 0:
        try:
            own = spooled_publisher(tmp_path, role="collector", rank=1, find_bus=lambda: bus)
            for number in range(10):
                own.log({"child": float(number)})
            os._exit(0 if own.close(20.0) and own.identity.pid == os.getpid() else 71)
        finally:
            os._exit(70)
    status: list[int] = []

    def ended() -> list[int]:
        found, code = os.waitpid(pid, os.WNOHANG)
        if found:
            status.append(os.waitstatus_to_exitcode(code))
        return status

    end.serve(ended, timeout_s=30)
    end.close()
    assert status == [0]
    assert end.values() == [{"child": float(number)} for number in range(10)]
    assert {hello.identity.incarnation for hello in end.hellos} != {publisher.identity.incarnation}
    publisher.close(0)


def test_forks_while_other_threads_log_never_hang(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    stop = threading.Event()

    def log() -> None:
        number = 0
        while not stop.is_set():
            publisher.point("p", 1.0, number)
            publisher.log({f"k{number % 50}": 1.0}, iteration=number)
            number += 1

    threads = [threading.Thread(target=log) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child() -> None:
        warnings.simplefilter("ignore")
        for number in range(20):
            publisher.log({f"new{number}": 1.0}, iteration=number)
            publisher.event("status", "x")

    try:
        codes = [in_child(child) for _ in range(10)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 10
    sequences = [sequence for sequence, _, _ in payloads(Path(publisher.identity.spool_path))]
    assert sequences == list(range(1, len(sequences) + 1))
    publisher.close(0)


def _spawned(launch: str, rank: int) -> None:
    publisher = open_publisher(
        SourceKey(rank, "collector"),
        RunInfo("sac"),
        launch_directory=Path(launch),
        find_bus=lambda: None,
    )
    for number in range(10):
        publisher.log({"child": float(number)})
    publisher.close(0)


def _forgetful(launch: str) -> None:
    publisher = open_publisher(
        SourceKey(0, "collector"),
        RunInfo("sac"),
        launch_directory=Path(launch),
        find_bus=lambda: None,
    )
    publisher.log({"child": 1.0})


def test_a_spawned_child_has_a_spool_of_its_own(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    publisher.log({"a": 1.0}, iteration=0)
    launch = Path(publisher.identity.spool_path).parent
    child = multiprocessing.get_context("spawn").Process(target=_spawned, args=(str(launch), 1))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    child.close()
    publisher.log({"a": 2.0}, iteration=1)
    assert values_of(publisher) == [{"a": 1.0}, {"a": 2.0}]
    identities = [SpoolReader(path).identity for path in launch.iterdir()]
    assert sorted(i.key.role for i in identities if i) == ["collector", "learner"]
    publisher.close(0)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_child_of_multiprocessing_that_forgets_to_close_still_ends_in_order(
    tmp_path: Path, method: str
) -> None:
    launch = tmp_path / "launch"
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=_forgetful, args=(str(launch),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    child.close()
    (spool,) = launch.iterdir()
    records = payloads(spool)
    assert [kind for _, kind, _ in records][-2:] == [RecordKind.REPORT, RecordKind.END]


def run_script(directory: Path, body: str, *, wait: bool = True) -> subprocess.Popen[str]:
    script = f"""
        import sys
        sys.path.insert(0, {str(SUPPORT)!r})
        from pathlib import Path
        from spooled import spooled_publisher
        publisher = spooled_publisher(Path({str(directory)!r}))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script) + textwrap.dedent(body)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if wait:
        process.wait(30)
    return process


def only_spool(directory: Path) -> Path:
    (spool,) = (directory / "launch").iterdir()
    return spool


def test_without_an_aggregator_the_interpreter_ends_within_a_second(tmp_path: Path) -> None:
    places = (tmp_path / str(n) for n in count())
    assert fastest_s(lambda: exit_s(next(places)), 1.0) < 1.0


def exit_s(folder: Path) -> float:
    """How long what is called at the exit takes."""
    folder.mkdir()
    body = """
        import atexit, time
        for iteration in range(1000):
            publisher.log({"a": 1.0}, iteration=iteration)
        began = time.monotonic()
        atexit.unregister(publisher._at_exit)
        def timed():
            publisher._at_exit()
            print(f"{time.monotonic() - began:.3f} {publisher.unsent}", flush=True)
        atexit.register(timed)
    """
    process = run_script(folder, body)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    assert process.returncode == 0, output
    said, figures = output.splitlines()
    assert said.startswith("unilab-metrics: 1002 unsent: ")
    seconds, unsent = figures.split()
    assert int(unsent) == 1002
    records = payloads(only_spool(folder))
    assert sum(isinstance(payload, IterationFrame) for _, _, payload in records) == 1000
    assert records[-1][1] == RecordKind.END
    assert records[-1][2].status == ""
    assert lease.is_free(only_spool(folder) / "lease")
    return float(seconds)


def test_an_exception_ends_the_script_and_its_frames_stay(tmp_path: Path) -> None:
    process = run_script(
        tmp_path, "publisher.log({'a': 1.0}, iteration=0)\nraise RuntimeError('training failed')"
    )
    assert process.stdout is not None
    assert "training failed" in process.stdout.read()
    process.stdout.close()
    assert process.returncode == 1
    _layout, _frame, status, _summary, end = [p for *_, p in payloads(only_spool(tmp_path))]
    assert status.text == "learner of rank 0 failed: RuntimeError: training failed"
    assert end.status == "failed"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("os._exit(3)", marks=pytest.mark.slow),
        "os.kill(os.getpid(), 9)",
        pytest.param("os.abort()", marks=pytest.mark.slow),
    ],
)
def test_an_end_without_any_cleanup_loses_nothing_that_was_logged(tmp_path: Path, how: str) -> None:
    process = run_script(
        tmp_path,
        f"""
        import os
        for iteration in range(50):
            publisher.log({{"a": 1.0}}, iteration=iteration)
        {how}
        """,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.returncode != 0
    spool = only_spool(tmp_path)
    assert lease.is_free(spool / "lease")
    frames = [p for _, kind, p in payloads(spool) if kind == RecordKind.ITERATION]
    assert [frame.iteration for frame in frames] == list(range(50))


def test_sigkill_at_a_random_moment_leaves_whole_records_in_sequence(tmp_path: Path) -> None:
    process = run_script(
        tmp_path,
        """
        iteration = 0
        while True:
            publisher.log({"a": 1.0, f"b{iteration % 90}": 2.0}, iteration=iteration)
            iteration += 1
            if iteration == 200:
                print("ready", flush=True)
        """,
        wait=False,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    records = payloads(only_spool(tmp_path))
    assert [sequence for sequence, _, _ in records] == list(range(1, len(records) + 1))
    frames = [p for _, kind, p in records if kind in (RecordKind.ITERATION, RecordKind.SPARSE)]
    assert [frame.iteration for frame in frames] == list(range(len(frames)))
    assert len(frames) > 100


def test_a_full_file_system_is_counted_and_passes(tmp_path: Path) -> None:
    body = """
        import resource
        spool = Path(publisher.identity.spool_path) / "spool-000001-000001"
        publisher.log({"a": 1.0}, iteration=0)
        size = spool.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 150, resource.RLIM_INFINITY))
        for iteration in range(1, 11):
            publisher.log({"a": 1.0}, iteration=iteration)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        publisher.log({"a": 1.0}, iteration=11)
        print(publisher.dropped, publisher.close(0))
    """
    process = run_script(tmp_path, body)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    records = payloads(only_spool(tmp_path))
    frames = [p.iteration for _, kind, p in records if kind == RecordKind.ITERATION]
    assert frames[0] == 0
    assert frames[-1] == 11
    assert output.splitlines()[-1] == f"{{'spool_full': {12 - len(frames)}}} False"
    assert 3 <= len(frames) < 12


def test_importing_the_publisher_loads_nothing_heavy() -> None:
    script = (
        "import sys, unilab_metrics.publish.opening;"
        "print([m for m in ('torch', 'textual', 'rich', 'tensorboardX', 'tensorboard', 'wandb',"
        " 'asyncio') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"
