"""A process joins its run: what it asked for, what the launcher and its parents said."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from unilab_metrics import __version__
from unilab_metrics.config import RUN_VARIABLE, is_store_used
from unilab_metrics.errors import SpoolError
from unilab_metrics.helper_life import Trouble
from unilab_metrics.publish import aggregator_care, losses
from unilab_metrics.publish.opening import open_publisher
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.warning import warn_caller
from unilab_metrics.run.directory import create_run_directory
from unilab_metrics.run.meeting import inheritance
from unilab_metrics.run.meeting.binding import resolve_bind
from unilab_metrics.run.meeting.far_ranks import FarRank
from unilab_metrics.run.meeting.finding import (
    BusFinder,
    launch_of_child,
    launch_of_rank,
    restarting_launcher,
    run_to_go_on_with,
)
from unilab_metrics.run.meeting.inheritance import Inherited
from unilab_metrics.run.meeting.ranks import Place, resolve_place
from unilab_metrics.run.meeting.store_rendezvous import StoreGuest, StoreHost
from unilab_metrics.run.meeting.torch_store import TorchStore, default_store, no_store
from unilab_metrics.run.opening import open_run
from unilab_metrics.run.rank_zero import RankZeroRun
from unilab_metrics.run.standing_in import StandIn
from unilab_metrics.run.tracker import plain_config
from unilab_metrics.storage.places import spool_candidates, spool_root
from unilab_metrics.transport.store_entries import StoreNames
from unilab_schema.identity import RunInfo, SourceKey

_MAX_EVENT_BYTES = 128 * 1024
_NO_RUN = (
    f"connect() found no run. {RUN_VARIABLE} is not set and no run_dir was given; call init() in "
    "the process that starts this one, before or soon after"
)


@dataclass(frozen=True, kw_only=True)
class RankWish:
    """The arguments of ``init()``; paths are absolute, ``run`` lacks the world size."""

    role: str
    instance: int
    rank: int | None
    world_size: int | None
    run_dir: Path | None
    log_root: Path
    run: RunInfo
    config: object
    backends: tuple[str, ...]
    log_interval: int
    expected_learners: int | None
    bind: str | None = None
    sidecar: str = "off"
    alerts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChildWish:
    """The arguments of ``connect()``, and what the environment of the process says."""

    role: str
    instance: int
    rank: int | None
    run_dir: Path | None
    run: RunInfo
    inherited: Inherited


class _Reports:
    """What happens to the aggregator becomes events of the publisher that comes later, and
    only errors of one that is closing: nothing follows the run's end."""

    def __init__(self) -> None:
        self.publisher: Publisher | None = None
        self.by = "rank 0"
        self._store_failures = 0
        self._has_said_so = False

    def __call__(self, trouble: Trouble) -> None:
        if self.publisher is None:
            return
        text = f"the aggregator {trouble}"
        self.publisher.losses.note(ChildProcessError(text))
        if not self.publisher.is_closing:
            self.publisher.event(
                "warning", text, helper="aggregator", by=self.by, reason=trouble.reason
            )

    def of_store(self, why: str) -> None:
        """The store did not help: counted each time, said once."""
        self._store_failures += 1
        if self.publisher is None:
            return
        self.publisher.losses.count(losses.STORE_UNUSABLE, self._store_failures)
        self._store_failures = 0
        if not self._has_said_so:
            self._has_said_so = True
            text = f"torch.distributed's store is of no use for finding the run: {why}"
            self.publisher.losses.note(ConnectionError(text))
            if not self.publisher.is_closing:
                self.publisher.event("warning", text, by=self.by)


def open_rank(wish: RankWish) -> Publisher:
    """The publisher of a rank; rank 0 opens the run and starts its aggregator.

    Raises ``ValueError`` for arguments that make no sense, and ``OSError`` and
    ``StorageError`` if there can be no run or no spool.
    """
    environ = os.environ
    if wish.log_interval < 1:
        raise ValueError(f"log_interval {wish.log_interval} is less than 1")
    place = resolve_place(environ, rank=wish.rank, world_size=wish.world_size)
    if place.doubt:
        warn_caller(f"{place.doubt}; taken for rank {place.rank} of {place.world_size}")
    run = msgspec.structs.replace(wish.run, world_size=place.world_size)
    inherited = inheritance.read(environ, of_others=True)
    run_dir = wish.run_dir or inherited.run_dir
    opened = inheritance.count_opened()
    launch = launch_of_rank(environ, place, inherited, run_dir, opened)
    config = plain_config(wish.config)
    reports = _Reports()
    opening = elsewhere = None
    store_names = StoreNames(environ, opened)
    find_store = default_store if is_store_used(environ) else no_store
    store = TorchStore(reports.of_store, find=find_store)
    if place.rank == 0:
        bind = _bind(wish.bind)
        started = datetime.now(timezone.utc)
        fill = partial(
            open_run,
            run=run,
            config=config,
            launch=launch,
            keeper=restarting_launcher(environ),
            backends=_with_tensorboard(wish.backends),
            log_interval=wish.log_interval,
            bind=bind,
            alerts=wish.alerts,
            started=started,
        )
        names = (wish.log_root.absolute(), run.algorithm, run.task, run.sim_backend)
        opening = RankZeroRun(
            run_dir or run_to_go_on_with(environ, launch),
            choose=lambda: create_run_directory(*names, started.astimezone()),
            fill=fill,
            report=reports,
            introduce=StoreHost(store_names, place.world_size, store) if bind else None,
        )
        run_dir = opening.run_dir
    else:
        far = FarRank(launch, place.rank)
        # Mostly the aggregator has survived, and can be told at once what the last process left.
        known = far.find() if restarting_launcher(environ) else None
        elsewhere = StoreGuest(store_names, place.rank, wish.role, far, store, known=known)
    inheritance.pass_on(
        run_dir=run_dir,
        launch=launch,
        rank=place.rank,
        algorithm=run.algorithm,
        strict=run.strict,
    )
    find_bus = BusFinder(run_dir, launch, elsewhere)
    spools, unusable = _spools(launch)
    if opening is not None and opening.trouble:
        warn_caller(
            f"{opening.trouble}; frames wait in {spools}, the run is opened when that works"
        )
    publisher = open_publisher(
        SourceKey(place.rank, wish.role, wish.instance),
        run,
        launch_directory=spools,
        find_bus=find_bus,
        find_run=lambda: find_bus.run_dir,
        # The shipper starts the aggregator, once our spool is there for it to see.
        supervise=opening,
        stand_in=_hurrying(store, _stand_in(launch, place, find_bus, reports)),
        wait_for_backends=opening is not None,
        unopened=lambda: "" if opening is None else opening.trouble,
        expected_learners=wish.expected_learners or place.world_size,
        version=__version__,
        unusable=unusable,
    )
    reports.publisher = publisher
    if opening is not None and config:
        _publish_config(publisher, config)
    if opening is not None and wish.sidecar != "off":
        _open_view(wish.sidecar, opening, place, publisher)
    return publisher


def _open_view(asked: str, opening: RankZeroRun, place: Place, publisher: Publisher) -> None:
    # Most trainings have no use for it, and it takes a moment to import.
    from unilab_metrics.run.launching.own_view import open_own_view

    if opening.run_dir is None or opening.trouble:
        return
    view = open_own_view(asked, opening.run_dir, place, os.environ)
    if view is not None:
        publisher.when_closed(view.close)
        opening.beside = view.tend


def open_child(wish: ChildWish) -> Publisher:
    """The publisher of a process that belongs to a rank. Raises as :func:`open_rank` does."""
    environ = os.environ
    place = resolve_place(environ, rank=wish.rank)
    run_dir = wish.run_dir or wish.inherited.run_dir
    launch = launch_of_child(environ, place, wish.inherited, run_dir)
    find_bus = BusFinder(run_dir, launch, FarRank(launch, place.rank).find)

    def lacks_run() -> str:
        found = find_bus()
        return _NO_RUN if found is None and find_bus.run_dir is None else ""

    reports = _Reports()
    spools, unusable = _spools(launch)
    publisher = open_publisher(
        SourceKey(place.rank, wish.role, wish.instance),
        msgspec.structs.replace(wish.run, world_size=place.world_size),
        launch_directory=spools,
        find_bus=find_bus,
        find_run=lambda: find_bus.run_dir,
        stand_in=_stand_in(launch, place, find_bus, reports),
        expected_learners=place.world_size,
        version=__version__,
        lacks_run=lacks_run,
        unusable=unusable,
    )
    reports.publisher = publisher
    return publisher


def _spools(launch: str) -> tuple[Path, SpoolError | None]:
    """Where the launch's spools lie, and why nothing can lie there yet."""
    try:
        return spool_root() / launch, None
    except SpoolError as error:
        return spool_candidates()[0] / launch, error


def _stand_in(launch: str, place: Place, find_bus: BusFinder, reports: _Reports) -> StandIn:
    reports.by = f"rank {place.rank}"
    return StandIn(launch, place.rank, find_run=lambda: find_bus.run_dir, report=reports)


def _hurrying(store: TorchStore, stand_in: StandIn) -> aggregator_care.StandIn:
    def look(*, hurry: bool) -> str:
        if hurry:
            store.hurry()
        return stand_in(hurry=hurry)

    return look


def _bind(asked: str | None) -> str:
    try:
        return resolve_bind(asked, os.environ)
    except ValueError as error:
        # init() has checked the argument; a wrong variable must not cost the run its metrics.
        warn_caller(f"{error}; other nodes and remote viewers cannot reach this run")
        return ""


def _with_tensorboard(backends: tuple[str, ...]) -> tuple[str, ...]:
    """TensorBoard files are written whatever else is; no backend at all stays none."""
    return tuple(dict.fromkeys(("tensorboard", *backends))) if backends else ()


def _publish_config(publisher: Publisher, config: dict[str, Any]) -> None:
    text = msgspec.json.format(msgspec.json.encode(config), indent=2).decode()
    if len(text) <= _MAX_EVENT_BYTES:
        publisher.event("config", text)
    else:
        publisher.text("config", f"```\n{text}\n```")
