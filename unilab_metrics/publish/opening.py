"""Making a publisher: a new incarnation, its spool, its shipper."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic_ns, time_ns

from unilab_metrics.errors import SpoolError, StorageError, why
from unilab_metrics.publish import losses
from unilab_metrics.publish.aggregator_care import StandIn, Supervise
from unilab_metrics.publish.connection import FindBus
from unilab_metrics.publish.late_spool import LateSpool
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.no_spool import NoSpool
from unilab_metrics.publish.own_figures import OwnFigures
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.runless import LacksRun, has_run
from unilab_metrics.publish.shipper import Shipper
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.spool_files import limits
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.storage.filesystem import boot_id, private_directory
from unilab_metrics.storage.process_table import pid_space
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.storage.standard_streams import fill_standard_streams
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import EventFrame
from unilab_schema.identity import Identity, RunInfo, SourceKey


def open_publisher(
    key: SourceKey,
    run: RunInfo,
    *,
    launch_directory: Path,
    find_bus: FindBus,
    supervise: Supervise | None = None,
    stand_in: StandIn | None = None,
    wait_for_backends: bool = False,
    find_run: Callable[[], Path | None] = lambda: None,
    expected_learners: int = 1,
    strict: bool | None = None,
    version: str = "",
    lacks_run: LacksRun = has_run,
    unopened: LacksRun = has_run,
    unusable: SpoolError | None = None,
) -> Publisher:
    """A publisher of this process, publishing at once; returns within milliseconds.

    ``launch_directory``: the private directory that the spools of the launch share; made if
    missing. ``find_bus``, ``supervise`` and ``stand_in`` are called by the shipper's thread, see
    :class:`Shipper`, which also says what ``find_run`` is. ``strict``: ``run.strict`` by
    default. ``lacks_run``: whether the spool may be removed at the end, because no run will
    come for it. ``unopened``: why there is no run, while only this process can open it.
    ``unusable``: why nothing can lie in ``launch_directory`` yet.

    Never raises for a disk that does not work: the publisher then counts what it is given, warns
    once, tells the run, and tries again. Raises ``ValueError`` for an identity that no aggregator
    would read.
    """
    with suppress(OSError):
        # For as long as the process lives: ZeroMQ opens descriptors whenever it likes.
        fill_standard_streams()
    identity = new_identity(key, run, launch_directory, expected_learners, version)
    # What no aggregator could read must not wait in a spool and look damaged there.
    decode_payload(RecordKind.IDENTITY, encode_payload(identity))
    strict = run.strict if strict is None else strict
    counted = Losses()
    spool: Spool = _spool_of(launch_directory, identity, counted, unusable)
    try:
        wakeup = _wakeup_of(spool)
    except (OSError, StorageError) as error:
        counted.note(error)
        text = f"metrics of this process are not logged: {error}"
        spool = NoSpool(identity, counted, losses.UNAVAILABLE, text)
        return Publisher(
            identity, spool=spool, shipper=None, strict=strict, algorithm=run.algorithm
        )
    figures = OwnFigures()
    shipper = Shipper(
        spool,
        counted,
        wakeup=wakeup,
        find_bus=find_bus,
        supervise=supervise,
        stand_in=stand_in,
        wait_for_backends=wait_for_backends,
        find_run=find_run,
        unopened=unopened,
        figures=figures,
    )
    publisher = Publisher(
        identity,
        spool=spool,
        shipper=shipper,
        strict=strict,
        algorithm=run.algorithm,
        lacks_run=lacks_run,
        figures=figures,
    )
    shipper.start()
    return publisher


def _spool_of(
    launch_directory: Path, identity: Identity, counted: Losses, unusable: SpoolError | None
) -> Spool:
    try:
        if unusable is not None:
            raise unusable
        return _new_spool(launch_directory, identity, counted)
    except (OSError, StorageError) as error:
        counted.note(error)
        is_bare = isinstance(error, OSError)
        reason = f"{launch_directory}: {why(error)}" if is_bare else str(error)
        late = LateSpool(identity, counted, partial(_make_place, launch_directory), reason)
        text = f"metrics of the {identity.key.place} are not logged: {reason}; it is tried again"
        late.append(
            RecordKind.EVENT,
            lambda mono, unix: encode_payload(EventFrame("warning", text, mono, unix)),
        )
        return late


def _make_place(launch_directory: Path) -> tuple[int, int]:
    for directory in (launch_directory.parent, launch_directory):
        private_directory(directory)
    return _limits_of(launch_directory)


def _limits_of(directory: Path) -> tuple[int, int]:
    space = os.statvfs(directory)
    return limits(space.f_bavail * space.f_frsize)


def _new_spool(launch_directory: Path, identity: Identity, counted: Losses) -> Spool:
    private_directory(launch_directory)
    try:
        return _spool_within_limits(identity, counted, launch_directory)
    except FileNotFoundError:
        # The aggregator of an earlier attempt has removed the empty directory meanwhile.
        private_directory(launch_directory)
        return _spool_within_limits(identity, counted, launch_directory)


def _wakeup_of(spool: Spool) -> Wakeup:
    try:
        return Wakeup()
    except OSError:
        spool.close(remove=True)
        raise


def _spool_within_limits(identity: Identity, counted: Losses, launch_directory: Path) -> Spool:
    segment_bytes, quota_bytes = _limits_of(launch_directory)
    return Spool(
        Path(identity.spool_path),
        identity,
        counted,
        segment_bytes=segment_bytes,
        quota_bytes=quota_bytes,
    )


def disabled_publisher(key: SourceKey, run: RunInfo, *, strict: bool | None = None) -> Publisher:
    """A publisher that does nothing, has no thread and touches no file."""
    identity = new_identity(key, run, Path(), 1, "")
    spool = NoSpool(identity, Losses())
    strict = run.strict if strict is None else strict
    return Publisher(identity, spool=spool, shipper=None, strict=strict, algorithm=run.algorithm)


def new_identity(
    key: SourceKey, run: RunInfo, launch_directory: Path, expected_learners: int, version: str
) -> Identity:
    """A new incarnation of ``key`` in this process."""
    incarnation = secrets.token_bytes(16)
    directory = launch_directory / incarnation.hex()
    return Identity(
        key=key,
        incarnation=incarnation,
        pid=os.getpid(),
        host=platform.node(),
        boot_id=boot_id(),
        spool_path=os.fspath(directory),
        lease_path=os.fspath(directory / LEASE_NAME),
        started_mono_ns=monotonic_ns(),
        started_unix_ns=time_ns(),
        expected_learners=expected_learners,
        run=run,
        version=version,
        pid_space=pid_space(),
    )
