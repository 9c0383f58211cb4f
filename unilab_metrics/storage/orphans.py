"""Spools whose process is gone: how they are told from others, and how they are removed."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path

from unilab_metrics.storage import lease
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.process_table import is_running, pid_space
from unilab_metrics.storage.segments import parse_segment_name
from unilab_metrics.storage.spool_reader import LEASE_NAME, SPOOL_PREFIX
from unilab_schema.identity import Identity

UNFINISHED_AGE_S = 60.0
"""A spool directory without a lease is being made, unless it is older than this."""


def is_abandoned(directory: Path) -> bool:
    """Whether no live process holds the spool. Raises ``OSError``."""
    path = directory / LEASE_NAME
    if path.exists():
        return lease.is_free(path)
    try:
        return time.time() - directory.stat().st_mtime > UNFINISHED_AGE_S
    except OSError:
        return False


def runs_here(identity: Identity) -> bool:
    """Whether its process is at work on this node: a lease is free also when its holder has
    closed a second descriptor of the file. Of our own process the lease tells more."""
    return _has_pid_here(identity) and is_running(identity.pid, identity.started_mono_ns)


def has_ended_here(identity: Identity) -> bool:
    """Whether its process was one of this node and has ended, for sure: false also where the
    system does not tell, and of our own process."""
    is_told = is_running(os.getpid(), time.monotonic_ns())
    return is_told and _has_pid_here(identity) and not runs_here(identity)


def _has_pid_here(identity: Identity) -> bool:
    """Whether its pid means that process to us, and is not our own."""
    # A container of this kernel has pids that say nothing here; one that did not say whose its pids
    # are has at least a name of its own.
    is_here = identity.boot_id == boot_id() and (
        identity.pid_space == pid_space()
        if identity.pid_space
        else identity.host == platform.node()
    )
    return is_here and identity.pid != os.getpid()


def is_out_of_sight(identity: Identity) -> bool:
    """Whether nothing of its process can be seen from here: it is on another node, or in a
    container of this one whose files are not ours. So is one whose spool somebody removed."""
    return identity.boot_id != boot_id() or not os.path.lexists(identity.lease_path)


def remove_spool(directory: Path) -> None:
    """Delete a spool whose every frame is durable in the journal; anything else in the
    directory stays, and with it the directory."""
    with suppress(OSError):
        for name in os.listdir(directory):
            parsed = parse_segment_name(name)
            if name == LEASE_NAME or (parsed is not None and parsed[0] == SPOOL_PREFIX):
                (directory / name).unlink(missing_ok=True)
        directory.rmdir()
