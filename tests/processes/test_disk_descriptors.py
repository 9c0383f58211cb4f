"""Processes that may open no more files: none dies, none spins, and all go on afterwards."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, finish, start, updates
from small_disks import head_with, training, watched

from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import bus_directory

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="needs another process's limits"
)

FEW_DESCRIPTORS = """
import os, resource, sys, warnings
import unilab_metrics as um
warnings.simplefilter("ignore")
um.init
run_dir, free = sys.argv[1], int(sys.argv[2])
used = max(map(int, os.listdir("/proc/self/fd"))) + 1
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 64, hard))
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(free):
    os.close(held.pop())
publisher = um.init(run_dir=run_dir, algorithm="sac", rank=0, world_size=1)
import time
for k in range(1, 51):
    publisher.log({"Loss/value": float(k)}, iteration=k)
    time.sleep(0.01)
for descriptor in held:
    os.close(descriptor)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
publisher.log({"Loss/value": 51.0}, iteration=51)
delivered = publisher.close(60.0)
print(len(publisher.losses.counts), sum(publisher.losses.counts.values()), delivered)
"""


@pytest.mark.parametrize(
    "free", [*(pytest.param(free, marks=pytest.mark.slow) for free in (0, 5, 14)), 9]
)
def test_a_training_that_may_open_few_files_goes_on(free: int, tmp_path: Path) -> None:
    training = start(FEW_DESCRIPTORS, tmp_path, str(free))
    _, dropped, delivered = finish(training, timeout_s=100).split()
    # An aggregator whose first start failed is waited for 10 s, and takes in the rest later.
    if delivered == "True" or int(dropped) == 0:
        assert int(dropped) == 0
        ended(tmp_path)
        assert len(updates(tmp_path)) == 51
    else:
        # It could not even make its spool: every call is counted.
        assert int(dropped) >= 51


@pytest.mark.slow
def test_an_aggregator_without_descriptors_costs_nothing(tmp_path: Path) -> None:
    """libzmq ends a process that gets no descriptor for an ipc peer. Only the user's own
    processes can bring that about; rank 0 then starts the next aggregator."""
    with training(tmp_path) as trainer:
        trainer.log(20)
        pid = aggregator_pid(tmp_path)
        endpoint = rendezvous.read(bus_directory(tmp_path)).ingest.removeprefix("ipc://")
        with watched(tmp_path) as viewer:
            head_with(viewer, lambda head: head.durable > 10)
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        most = psutil.Process(pid).num_fds() + 3
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
        with ExitStack() as stack:
            for _ in range(8):
                idle = stack.enter_context(socket.socket(socket.AF_UNIX))
                with suppress(OSError):
                    idle.connect(endpoint)
            trainer.log(200, 0.002)
        facts, errors = trainer.close()
        assert (facts["delivered"], facts["drops"], errors) == (True, {}, "")
    ended(tmp_path)
    assert [u.iteration for u, _ in updates(tmp_path)] == list(range(1, 221))


@pytest.mark.slow
def test_an_aggregator_may_open_as_many_files_as_it_can_get(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with training(tmp_path) as trainer:
        trainer.log(1)
        pid = aggregator_pid(tmp_path)
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
        # The training keeps its own.
        assert resource.prlimit(trainer.process.pid, resource.RLIMIT_NOFILE) == (soft, hard)
        assert trainer.close()[0]["delivered"]
    ended(tmp_path)
