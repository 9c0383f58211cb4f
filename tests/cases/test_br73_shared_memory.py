"""BR-73: "no space left" from /dev/shm while the disk is fine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import updates
from small_disks import PROGRAM

from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.places import SPOOL_VARIABLE

# In a mount namespace of its own, /dev/shm is what the test says; so is everything that the
# script starts. It ends when the aggregator has.
SCRIPT = """
import json, os, pathlib, resource, signal, subprocess, sys, time
run_dir, program, size, kills = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "kill"
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", "/dev/shm"], check=True)
shm = pathlib.Path("/dev/shm")
if size == "1m":
    with (shm / "others").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
training = subprocess.Popen(
    [sys.executable, "-c", program, run_dir, "0"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
)
facts = [json.loads(training.stdout.readline())]
def say(words):
    training.stdin.write(words + "\\n")
    training.stdin.flush()
    facts.append(json.loads(training.stdout.readline()))
say("log 100 0.001")
say("point 1000")
ours = shm / f"unilab-metrics-{os.getuid()}"
used = sorted(map(str, ours.rglob("*"))) if ours.exists() else []
if kills:
    training.kill()
else:
    say("close 30")
errors = training.communicate()[1]
deadline = time.monotonic() + 60
lease = pathlib.Path(run_dir) / "bus" / "aggregator.lease"
summary = pathlib.Path(run_dir) / "run_summary.json"
while time.monotonic() < deadline and (lease.exists() or not summary.exists()):
    time.sleep(0.1)
left = sorted(str(path) for path in shm.rglob("*") if path.name != "others")
print(json.dumps({"facts": facts, "errors": errors, "used": used, "left": left}))
"""


@pytest.mark.parametrize(
    ("size", "kills"),
    [
        ("1m", "kill"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("1m", "close"), ("64k", "close"), ("64m", "kill"), ("64m", "close"))
        ),
    ],
)
def test_the_bus_needs_no_shared_memory_and_leaves_nothing_there(
    size: str, kills: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    monkeypatch.delenv(SPOOL_VARIABLE)
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", SCRIPT, os.fspath(tmp_path), PROGRAM, size, kills],
        check=False,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == ""
    assert all(facts["drops"] == {} for facts in found["facts"])
    # A container's usual 64 MiB may be used a little, what is full or tiny is not.
    assert bool(found["used"]) == (size == "64m")
    # The user's own folder stays, empty.
    assert set(found["left"]) <= {f"/dev/shm/unilab-metrics-{os.getuid()}"}
    verified = verify_run(tmp_path)
    assert verified.points_per_tag["Point/value"] == 1000
    assert [u.iteration for u, _ in updates(tmp_path)] == list(range(1, 101))
