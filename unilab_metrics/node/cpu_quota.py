"""The processor time that a container may have, where one limits it, and what it has used."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from unilab_metrics.node.control_groups import (
    MEMBERSHIP,
    MOUNTED,
    Group,
    field,
    groups,
    number,
    read,
)


class CpuQuota(NamedTuple):
    """``processors``: as much time as so many have; may be a fraction. ``used_ns``: processor time
    of everything in ``group`` since it exists."""

    group: Group
    processors: float
    used_ns: int


def cpu_quota(
    processors: int, *, membership: Path = MEMBERSHIP, mounted: Path = MOUNTED
) -> CpuQuota | None:
    """The tightest quota below so many processors of all groups that this process is in, ``None``
    without any. Never raises."""
    tightest: CpuQuota | None = None
    most = float(processors)
    for group in groups("cpu", membership):
        quota = _second(mounted, group) if group.version == 2 else _first(mounted, group)
        if quota is not None and 0.0 < quota.processors < most:
            most, tightest = quota.processors, quota
    return tightest


def _second(mounted: Path, group: Group) -> CpuQuota | None:
    folder = mounted / group.folder
    quota, _, period = read(folder / "cpu.max").strip().partition(" ")
    used_us = field(read(folder / "cpu.stat"), "usage_usec")
    return _quota(group, number(quota), number(period), None if used_us is None else used_us * 1000)


def _first(mounted: Path, group: Group) -> CpuQuota | None:
    folder = mounted / "cpu" / group.folder
    quota, period = (number(read(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    used_ns = number(read(mounted / "cpuacct" / group.folder / "cpuacct.usage"))
    return _quota(group, quota, period, used_ns)


def _quota(
    group: Group, quota: int | None, period: int | None, used_ns: int | None
) -> CpuQuota | None:
    if quota is None or not period or used_ns is None:
        return None
    return CpuQuota(group, quota / period, used_ns)
