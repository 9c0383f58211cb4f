"""One kernel may run several containers: what equal boot ids do not say."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import msgspec
import pytest

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.run.verifying.verify_sources import ELSEWHERE, GONE, LIVE, source_facts
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.orphans import is_out_of_sight, runs_here
from unilab_metrics.storage.process_table import pid_space
from unilab_schema.identity import Identity, SourceKey


def identity(directory: Path, boot: str) -> Identity:
    key, lease = SourceKey(1, "learner"), str(directory / "lease")
    return Identity(key, b"i" * 16, 2**30, "host", boot, str(directory), lease, 1, 1)


@pytest.mark.parametrize("boot", ["another", boot_id()])
def test_a_process_whose_lease_is_not_here_cannot_be_seen_from_here(
    tmp_path: Path, boot: str
) -> None:
    one = identity(tmp_path, boot)
    assert is_out_of_sight(one)
    assert source_facts(SourceState(0, one), {}, None).state == ELSEWHERE


def test_a_lease_of_this_kernel_that_is_here_says_whether_its_process_lives(tmp_path: Path) -> None:
    one = identity(tmp_path, boot_id())
    held = Lease.create(tmp_path, "lease", b"")
    assert not is_out_of_sight(one)
    assert source_facts(SourceState(0, one), {}, None).state == LIVE
    held.release(unlink=False)
    assert os.path.lexists(one.lease_path)
    assert source_facts(SourceState(0, one), {}, None).state == GONE


def test_a_pid_of_a_container_names_no_process_of_this_one(tmp_path: Path) -> None:
    one = identity(tmp_path, boot_id())
    parent = msgspec.structs.replace(
        one, pid=os.getppid(), started_mono_ns=time.monotonic_ns(), host=platform.node()
    )
    assert runs_here(parent)
    assert not runs_here(msgspec.structs.replace(parent, host="the-container"))
    here = msgspec.structs.replace(parent, pid_space=pid_space())
    assert runs_here(here)
    # Containers of one pod have one name, and each its own pids.
    assert not runs_here(msgspec.structs.replace(here, pid_space=pid_space() + 1))
