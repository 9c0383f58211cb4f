"""BR-39: a child of a training neither breaks nor doubles what its parent publishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_runs import ended, run, scalars
from real_runs import only_run

HEAD = """
import json, multiprocessing, os, sys, time, warnings
import unilab_metrics as um

publisher = None

def emit(first):
    for step in range(first, first + 10):
        publisher.point("parent", float(step), step=step)

def silent_child(connection):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        emit(100)
    connection.send([[str(w.message) for w in caught], publisher.dropped])

def connected_child(connection):
    own = um.connect(role="evaluator")
    for step in range(10):
        own.point("child", float(step), step=step)
    # Who did not start the aggregator waits 10 s only for one that has not come up yet.
    while not own._shipper.bus_seen:
        time.sleep(0.01)
    connection.send([own.close(90), own.dropped])

def main(child, method):
    global publisher
    context = multiprocessing.get_context(method)
    publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
    emit(0)
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    answer = ours.recv()
    process.join()
    emit(10)
    assert publisher.close(90), publisher.errors
    print(json.dumps([process.exitcode, answer, publisher.dropped]))

if __name__ == "__main__":
    main({"silent": silent_child, "connected": connected_child}[sys.argv[2]], sys.argv[3])
"""
PARENT = [(step, float(step)) for step in range(20)]
"""In the order of the file."""


def test_a_forked_child_that_does_not_connect_warns_once_and_is_a_no_op(tmp_path: Path) -> None:
    output = run(HEAD, tmp_path, "silent", "fork")
    exit_code, (warned, child_dropped), parent_dropped = json.loads(output)
    assert exit_code == 0
    assert len(warned) == 1
    assert "connect()" in warned[0]
    assert child_dropped == {"forked": 10}
    assert parent_dropped == {}
    run_dir = only_run(tmp_path)
    ended(run_dir)
    assert scalars(run_dir) == {"parent": PARENT}


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_child_that_connects_has_records_of_its_own(method: str, tmp_path: Path) -> None:
    # A spawned child imports its program anew, so that must be a file.
    script = tmp_path / "train.py"
    script.write_text(HEAD)
    code = "import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    logs = tmp_path / "logs"
    output = run(code, script, logs, "connected", method)
    exit_code, (delivered, child_dropped), parent_dropped = json.loads(output)
    assert (exit_code, delivered, child_dropped, parent_dropped) == (0, True, {}, {})
    run_dir = only_run(logs)
    ended(run_dir)
    child = [(step, float(step)) for step in range(10)]
    assert scalars(run_dir) == {"parent": PARENT, "child": child}
