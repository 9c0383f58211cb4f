"""Spools of dead processes of other runs: whose they are, and what becomes of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.run.doctor.finding import INFO, WARNING, Finding
from unilab_metrics.run.meeting.launch_file import find_run
from unilab_metrics.storage import lease
from unilab_metrics.storage.path_text import path_of
from unilab_metrics.storage.places import held_bytes, runtime_places, spool_candidates
from unilab_metrics.storage.removed_runs import KEPT_S, age_s
from unilab_metrics.storage.spool_owner import RunFile, decode_owner
from unilab_metrics.storage.spool_places import spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_metrics.wording import agreeing, counted

_SUBJECT = "leftovers"
_KIB, _MIB = 1024, 1024 * 1024


class _Left(NamedTuple):
    """Spools of one launch that belong to one run. ``run``: ``None`` if their processes never
    found theirs."""

    launch: Path
    run: RunFile | None
    spools: list[Path]

    @property
    def bytes(self) -> int:
        return sum(map(held_bytes, self.spools))

    @property
    def silent_s(self) -> float:
        return min(map(age_s, self.spools))

    @property
    def it(self) -> str:
        return agreeing(len(self.spools), "it", "them")


def examine(own_places: list[Path]) -> list[Finding]:
    """One line for each run that has left some; those that say of none are one together, and a
    detail each. ``own_places``: launches to pass over."""
    found = list(_all_left(own_places))
    nameless = [left for left in found if _run_of(left) is None]
    if len(nameless) < 2:
        return [_finding(left) for left in found]
    named = [_finding(left) for left in found if left not in nameless]
    details = (_finding(left)._replace(level=INFO, is_detail=True) for left in nameless)
    return [*named, _together(nameless), *details]


def total(own_places: list[Path]) -> Iterator[Finding]:
    """All of them together, if there are any, and what makes a run of some."""
    found = list(_all_left(own_places))
    if not found:
        return
    spools = sum(len(left.spools) for left in found)
    text = f"in all {counted(spools, 'spool')} of dead processes, {_size(_bytes_of(found))}"
    make = make_run("RUN_DIR", "PATH")
    fix = f"to make a run of one whose own is gone: {make}; `rm -r PATH` gives its frames up"
    yield Finding(_SUBJECT, INFO, text, fix)


def _together(nameless: list[_Left]) -> Finding:
    spools = sum(len(left.spools) for left in nameless)
    ages = sorted(left.silent_s for left in nameless)
    youngest, oldest = _span(ages[0]), _span(ages[-1])
    when = oldest if youngest == oldest else f"{youngest} to {oldest}"
    places = sorted({os.fspath(left.launch.parent) for left in nameless})
    text = (
        f"{counted(spools, 'spool')} of dead processes of {len(nameless):,} launches in "
        f"{', '.join(places)} do not say of which run, {_size(_bytes_of(nameless))}, last written "
        f"{when} ago"
    )
    fix = f"the same with -v names them; then, for each, {_fix_of_nameless('PATH')}"
    return Finding(_SUBJECT, WARNING, text, fix)


def _fix_of_nameless(launch: str) -> str:
    return (
        f"`unilab-metrics recover RUN_DIR --spool {launch}` with the run that was cut off "
        f"(`unilab-metrics ls`), or `rm -r {launch}` if nobody misses it"
    )


def make_run(folder: str, launch: str) -> str:
    """The commands that make a run of what lies in a launch's spools. Pure."""
    return f"mkdir -m 700 -p {folder}/bus && unilab-metrics aggregate {folder} --spool {launch}"


def _bytes_of(found: list[_Left]) -> int:
    return sum(left.bytes for left in found)


def _all_left(own_places: list[Path]) -> Iterator[_Left]:
    for root in spool_candidates():
        if not root.is_dir() or root.is_symlink():
            continue
        for launch in sorted(root.iterdir()):
            if launch in own_places or not launch.is_dir():
                continue
            by_run: dict[RunFile | None, list[Path]] = {}
            for spool in spools_in([launch]):
                if _is_dead(spool):
                    by_run.setdefault(_run_file(spool), []).append(spool)
            yield from (_Left(launch, run, spools) for run, spools in by_run.items())


def _is_dead(spool: Path) -> bool:
    return (spool / LEASE_NAME).exists() and lease.is_free(spool / LEASE_NAME)


def _run_file(spool: Path) -> RunFile | None:
    owner = decode_owner(lease.read_owner(spool / LEASE_NAME) or b"")
    return None if owner is None else owner.run


def _finding(left: _Left) -> Finding:
    whose, fix = _fate(left)
    text = f"{left.launch}: {counted(len(left.spools), 'spool')} of {_what(left)}, {whose}"
    return Finding(_SUBJECT, WARNING, text, fix, on_one_line=True)


def _what(left: _Left) -> str:
    identity = SpoolReader(left.spools[0]).identity
    algorithm = "" if identity is None else identity.run.algorithm
    processes = agreeing(len(left.spools), "a dead process", "dead processes")
    what = f"{processes}{f' of {algorithm}' if algorithm else ''}, {_size(left.bytes)}"
    return f"{what}, last written {_span(left.silent_s)} ago"


def _run_of(left: _Left) -> Path | None:
    return _launched_run(left.launch.name) if left.run is None else path_of(left.run.path)


def _fate(left: _Left) -> tuple[str, str]:
    """Whose they are, and what is to be done."""
    run_dir = _run_of(left)
    if run_dir is None:
        whose = f"{agreeing(len(left.spools), 'which does', 'which do')} not say of which run"
        return whose, _fix_of_nameless(_quoted(left.launch))
    name = shlex.quote(os.fspath(run_dir))
    if left.run is not None and left.run.was_removed():
        return _of_a_removed_run(left, name)
    if bus_directory(run_dir).is_dir():
        if lease.settled_pid(aggregator_lease(run_dir)) is not None:
            return f"of the run {name}", f"its aggregator takes {left.it} in"
        return f"of the run {name}", f"unilab-metrics recover {name}"
    if run_dir.is_dir():
        return f"of the run {name}, whose bus/ is gone", make_run(name, _quoted(left.launch))
    text = f"of the run {name}, which is not to be seen: its disk may not be mounted"
    return text, f"when it is there: unilab-metrics recover {name}"


def _of_a_removed_run(left: _Left, name: str) -> tuple[str, str]:
    rest_s = KEPT_S - left.silent_s
    when = f", not before {_span(rest_s)} from now" if rest_s > 0 else ""
    text = f"of the run {name}, which is gone"
    return text, f"the next `aggregate` of any run removes {left.it}{when}"


def _launched_run(launch: str) -> Path | None:
    # Asking makes the directory in which it would be written down.
    is_there = any(place.is_dir() for place in runtime_places())
    return find_run(launch, of_dead_rank_0=True) if is_there else None


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))


def _span(seconds: float) -> str:
    for unit, length_s in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length_s:
            return counted(int(seconds // length_s), unit)
    return "a moment"


def _size(number: int) -> str:
    return f"{number / _MIB:,.1f} MiB" if number >= _MIB else f"{number / _KIB:,.0f} KiB"
