"""A process of a training that is killed at will, and its ledger of what it has published.

``python fault_rank.py SETTINGS``: a JSON object with the fields of :class:`Settings`. Each call
that has returned is one line in the ledger, written with one ``os.write`` after the return. When it
was started, as its identity says, lies in a file of its own beside it:

    iteration NUMBER VALUE BEFORE_NS AFTER_NS      a learner's log()
    report NUMBER BEFORE_NS AFTER_NS               a collector's log()
    point NUMBER                                   a point()
    closed DELIVERED                               close(), 1 or 0
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
from fault_helper import hurry_restarts

import unilab_metrics as um
from unilab_metrics.publish import spool_files
from unilab_metrics.publish.publisher import Publisher

STOP_COLLECTORS = "stop-collectors"
STOP_LEARNERS = "stop-learners"
_POINT_EVERY = 10
_LONGEST_S = 900.0
"""Longer than any test: where the test has been killed, nobody else would ever end its ranks."""
_BEGAN_S = time.monotonic()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``name``: of this process and its ledger, different for each start. Iterations follow
    the clock, so that ranks that nobody synchronises stay together: iteration k is due at
    ``start_mono_ns + k * interval_ns``; the first one is at least ``first``."""

    run_dir: str
    folder: str
    role: str
    rank: int
    world_size: int
    name: str
    first: int
    start_mono_ns: int
    interval_ns: int
    segment_bytes: int = 0
    close_timeout_s: float = 30.0


def value_of(rank: int, iteration: int) -> float:
    """What a rank logs; a number that float32 holds, so that event files can be compared."""
    return rank * 4096.0 + iteration % 2048 + 0.5


def is_asked_to_end(stop: Path) -> bool:
    return stop.exists() or time.monotonic() > _BEGAN_S + _LONGEST_S


class Ledger:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())


def learn(settings: Settings, publisher: Publisher, ledger: Ledger) -> None:
    stop = Path(settings.folder) / STOP_LEARNERS
    due = (time.monotonic_ns() - settings.start_mono_ns) // settings.interval_ns + 1
    iteration = max(settings.first, due)
    is_last = False
    while not is_last:
        wait_ns = settings.start_mono_ns + iteration * settings.interval_ns - time.monotonic_ns()
        time.sleep(max(wait_ns, 0) / 1e9)
        # Every collector has ended by then, so that the last iteration takes all reports in.
        is_last = is_asked_to_end(stop)
        value = value_of(settings.rank, iteration)
        before = time.monotonic_ns()
        publisher.log(
            {"Loss/value": value, f"Ledger/{settings.name}": float(iteration)}, iteration=iteration
        )
        ledger.write("iteration", iteration, value, before, time.monotonic_ns())
        if iteration % _POINT_EVERY == 0:
            publisher.point(f"Point/{settings.name}", float(iteration), iteration)
            ledger.write("point", iteration)
        iteration += 1


def collect(settings: Settings, publisher: Publisher, ledger: Ledger) -> None:
    stop = Path(settings.folder) / STOP_COLLECTORS
    counted = (f"Count/{settings.name}", f"Sum/{settings.name}")
    for tag in counted:
        publisher.define_metric(tag, over_ranks="sum", over_time="sum")
    number = 0
    while not is_asked_to_end(stop):
        number += 1
        before = time.monotonic_ns()
        publisher.log(dict(zip(counted, (1.0, float(number)), strict=True)))
        ledger.write("report", number, before, time.monotonic_ns())
        if number % _POINT_EVERY == 0:
            publisher.point(f"Point/{settings.name}", float(number), number)
            ledger.write("point", number)
        time.sleep(settings.interval_ns / 1e9)


def tell_start(settings: Settings, publisher: Publisher) -> None:
    path = Path(settings.folder) / f"{settings.name}.started"
    path.write_text(str(publisher.identity.started_mono_ns))


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    hurry_restarts()
    if settings.segment_bytes:
        assert settings.segment_bytes < spool_files.SEGMENT_BYTES
        spool_files.SEGMENT_BYTES = settings.segment_bytes
    ledger = Ledger(Path(settings.folder) / f"{settings.name}.ledger")
    if settings.role == "learner":
        publisher = um.init(
            algorithm="ppo",
            task="Toy",
            sim_backend="numpy",
            run_dir=settings.run_dir,
            rank=settings.rank,
            world_size=settings.world_size,
        )
        tell_start(settings, publisher)
        learn(settings, publisher, ledger)
    else:
        publisher = um.connect(run_dir=settings.run_dir, rank=settings.rank)
        tell_start(settings, publisher)
        collect(settings, publisher, ledger)
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
