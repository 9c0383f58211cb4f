"""How a training ended is what its run says, also when nobody called ``close()``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from real_runs import fastest_s, only_run, start, whole

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import EventUpdate

BEGIN = """
import os, signal, sys
import unilab_metrics as um
def begin():
    publisher = um.init(algorithm="ppo", log_root=sys.argv[1])
    for iteration in range(5):
        publisher.log({"Loss/value": 1.0}, iteration=iteration)
    return publisher
"""
SLOW = pytest.mark.slow
CTRL_C = "os.kill(os.getpid(), signal.SIGINT); signal.pause()"


def ending(logs: Path, code: str) -> dict[str, Any]:
    """The summary of a training that ends by this code."""
    return ending_and_output(logs, code)[0]


def ending_and_output(logs: Path, code: str) -> tuple[dict[str, Any], str]:
    """The same, and what it printed."""
    with start(BEGIN + code, str(logs)) as process:
        output, _ = process.communicate(timeout=100)
    run_dir = only_run(logs)
    assert whole(run_dir).points_per_tag["Loss/value"] == 5
    summary = read_summary(run_dir)
    assert summary is not None
    return {"error": None, "error_type": None, **summary}, output


def events(logs: Path) -> list[str]:
    with HistoryReader(bus_directory(only_run(logs))) as reader:
        entries = [record.entry for record in reader.poll(1000)]
    return [entry.frame.text for entry in entries if isinstance(entry, EventUpdate)]


@pytest.mark.parametrize(
    ("code", "error_type", "error"),
    [
        ("raise ValueError('out of memory')", "ValueError", "out of memory"),
        pytest.param(CTRL_C, "KeyboardInterrupt", "KeyboardInterrupt", marks=SLOW),
        pytest.param(
            "sys.excepthook = print; raise ValueError('x')", "ValueError", "x", marks=SLOW
        ),
    ],
)
def test_an_exception_that_nobody_caught_is_a_failure(
    code: str, error_type: str, error: str, tmp_path: Path
) -> None:
    summary = ending(tmp_path, f"publisher = begin()\n{code}")
    assert (summary["status"], summary["error_type"]) == ("failed", error_type)
    assert summary["error"] == error


@pytest.mark.parametrize(
    ("code", "error_type"),
    [
        pytest.param("raise ValueError('x')", "ValueError", marks=SLOW),
        (CTRL_C, "KeyboardInterrupt"),
        pytest.param("sys.exit(3)", "SystemExit", marks=SLOW),
        pytest.param("sys.exit(143)", "SystemExit", marks=SLOW),
        pytest.param("sys.exit('bad configuration')", "SystemExit", marks=SLOW),
        ("sys.exit()", None),
        pytest.param("sys.exit(0)", None, marks=SLOW),
    ],
)
def test_a_with_block_sees_how_it_is_left(
    code: str, error_type: str | None, tmp_path: Path
) -> None:
    summary = ending(tmp_path, f"with begin() as publisher:\n    {code}")
    assert summary["error_type"] == error_type
    assert summary["status"] == ("completed" if error_type is None else "failed")
    ended = "stopped" if code in (CTRL_C, "sys.exit(143)") else summary["status"]
    assert summary["bus"]["ended"] == ended


def test_an_exception_that_was_caught_is_none(tmp_path: Path) -> None:
    code = "publisher = begin()\ntry:\n    raise ValueError('x')\nexcept ValueError:\n    pass"
    summary = ending(tmp_path, code)
    assert (summary["status"], summary["error"]) == ("completed", None)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=SLOW)])
def test_a_collector_that_dies_by_an_exception_says_so(method: str, tmp_path: Path) -> None:
    """Also a child of multiprocessing, whose exceptions reach no hook."""
    (tmp_path / "collectors.py").write_text(
        "import unilab_metrics as um\n"
        "def collect():\n"
        "    um.connect().log({'reward/a': 1.0})\n"
        "    raise RuntimeError('no simulator')\n"
    )
    code = (
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import multiprocessing, collectors\n"
        "publisher = begin()\n"
        f"child = multiprocessing.get_context({method!r}).Process(target=collectors.collect)\n"
        "child.start(); child.join(); assert child.exitcode == 1\n"
        "assert publisher.close()"
    )
    ending(tmp_path / "logs", code)
    assert "collector of rank 0 failed: RuntimeError: no simulator" in events(tmp_path / "logs")


COLLECTORS_GO_ON = """
import multiprocessing, time
context = multiprocessing.get_context("fork")
def collect(is_heard):
    with um.connect(role="collector") as publisher:
        publisher.log({"reward/a": 1.0})
        while publisher.unsent:
            time.sleep(0.02)
        is_heard.set()
        while True:
            publisher.log({"reward/a": 1.0})
            time.sleep(0.02)
if __name__ == "__main__":
    is_heard = context.Event()
    try:
        with begin():
            context.Process(target=collect, args=(is_heard,), daemon=True).start()
            assert is_heard.wait(60)
            raised_s = time.monotonic()
            raise ValueError("a mistake")
    finally:
        print(time.monotonic() - raised_s)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_exception_does_not_wait_long_for_collectors_that_nobody_has_told(
    tmp_path: Path,
) -> None:
    places = (tmp_path / str(n) for n in count())

    def waited_s() -> float:
        summary, output = ending_and_output(next(places), COLLECTORS_GO_ON)
        assert (summary["status"], summary["error"]) == ("failed", "a mistake")
        return float(output)

    assert 9.5 < fastest_s(waited_s, 11.0) < 11.0
