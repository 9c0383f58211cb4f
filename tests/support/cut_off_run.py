"""A run of one process whose frames never left its spool, and ``recover`` as its aggregator.

All in the process of the test, so a whole run with spool, wal, history, event file and summary
takes a fraction of a second.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.bus_settings import write_settings
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import Record, encode_record, scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.identity import RunInfo, SourceKey

LAUNCH = "toy-launch"


def open_run_directory(run_dir: Path, backends: tuple[str, ...] = ("tensorboard",)) -> Path:
    """What rank 0 leaves there before its aggregator is up."""
    run_dir.mkdir(parents=True, exist_ok=True)
    private_directory(bus_directory(run_dir))
    write_settings(run_dir, launch=LAUNCH, backends=backends, log_interval=1)
    return run_dir


def source(rank: int = 0, role: str = "learner", learners: int = 1, instance: int = 0) -> Publisher:
    """A publisher of this process that finds no aggregator."""
    return open_publisher(
        SourceKey(rank, role, instance),
        RunInfo("ppo", "Toy", "numpy"),
        launch_directory=spool_root() / LAUNCH,
        find_bus=lambda: None,
        expected_learners=learners,
    )


def end(publisher: Publisher) -> None:
    """Close it; its spool stays behind, its lease is free."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        publisher.close(0.0)


def log(publisher: Publisher, iterations: Iterable[int]) -> None:
    """One value per iteration."""
    for iteration in iterations:
        publisher.log({"Loss/value": iteration / 3}, iteration=iteration)


def whole_run(run_dir: Path, iterations: int = 20) -> Recovery:
    """A complete run."""
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(iterations))
    end(publisher)
    return recover_run(run_dir)


Change = Callable[[Record], Iterable[tuple[int, int, bytes]] | None]


def rewrite(path: Path, kinds: Iterable[int], change: Change) -> None:
    """Change the records of a segment, checksums made anew. ``change`` gives the records that
    take the place of one as (kind, sequence, payload), ``None`` to leave it."""
    data = path.read_bytes()
    out: list[bytes] = []
    for record in scan(data, kinds=frozenset(kinds)).records:
        changed = change(record)
        if changed is None:
            out.append(data[record.start : record.end])
        else:
            out += [encode_record(*one) for one in changed]
    path.write_bytes(b"".join(out))
    # Whoever forges a journal sees to it.
    (path.parent / DURABLE_FILE).unlink(missing_ok=True)


def newest(bus_dir: Path, prefix: str) -> Path:
    """The newest segment."""
    return list_segments(bus_dir, prefix)[-1]


def spools() -> Iterator[Path]:
    """The spool directories of the launch."""
    launch = spool_root() / LAUNCH
    yield from sorted(launch.iterdir()) if launch.is_dir() else ()


def kill(publisher: Publisher) -> None:
    """Its spool stays behind as a kill leaves it: without a goodbye."""
    spool = Path(publisher.identity.spool_path)
    before = {path: path.read_bytes() for path in list_segments(spool, SPOOL_PREFIX)}
    end(publisher)
    for path, data in before.items():
        path.write_bytes(data)


@contextlib.contextmanager
def out_of_sight(publisher: Publisher) -> Iterator[None]:
    """Nobody finds its spool meanwhile, as if its node were cut off."""
    spool = Path(publisher.identity.spool_path)
    hidden = spool_root().parent / f"hidden-{spool.name}"
    spool.rename(hidden)
    yield
    (spool_root() / LAUNCH).mkdir(mode=0o700, exist_ok=True)
    hidden.rename(spool)
