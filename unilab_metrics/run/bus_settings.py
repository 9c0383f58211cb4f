"""``bus/settings.json``: how the helpers of a run were started, for whoever starts them again.

Rank 0 writes it at each attempt; ``aggregate RUN`` and ``verify RUN`` without options read it.
The spool directories of earlier attempts stay listed, so that what was cut off is adopted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.run.meeting.launch_file import forget_run, is_kept
from unilab_metrics.storage.filesystem import read_private, write_atomic
from unilab_metrics.storage.places import spool_candidates
from unilab_metrics.transport.rendezvous import bus_directory

SETTINGS_FILE = "settings.json"
_MAX_BYTES = 1024 * 1024
_MOST_SPOOLS = 64
_VERSION = 1


class BusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``launch``: key of the newest attempt's launch. ``spools``: directories in which this run's
    processes of this node may have spools. ``log_interval``: backends get the iterations that it
    divides, and the last one. ``bind``: where the aggregator listens for other nodes, see
    :func:`resolve_bind`. ``alerts``: rules of the user's own."""

    version: int = _VERSION
    launch: str = ""
    backends: tuple[str, ...] = ("tensorboard",)
    log_interval: int = 1
    spools: tuple[str, ...] = ()
    bind: str = ""
    alerts: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(BusSettings)


def clear_launch(launch: str, run_dir: Path, spools: Iterable[Path]) -> None:
    """Take away what only a launch needed whose run is complete: its file, and its spool
    directories if they are empty. A launch that its launcher may start again needs both."""
    if launch and is_kept(launch):
        return
    if launch:
        forget_run(launch, run_dir)
    for directory in spools:
        with contextlib.suppress(OSError):
            directory.rmdir()


def has_settings(run_dir: Path) -> bool:
    """Whether a rank 0 has opened the run."""
    return os.path.lexists(bus_directory(run_dir) / SETTINGS_FILE)


def read_settings(run_dir: Path) -> BusSettings:
    """The settings of a run; the defaults if it has none that can be read."""
    return _read(run_dir)[0]


def settings_fault(run_dir: Path) -> str:
    """Why the settings cannot be read, so that the places of the run's spools are not known;
    empty if they can."""
    return _read(run_dir)[1]


def _read(run_dir: Path) -> tuple[BusSettings, str]:
    try:
        found = _decoder.decode(read_private(bus_directory(run_dir) / SETTINGS_FILE, _MAX_BYTES))
    except OSError as error:
        return BusSettings(), error.strerror or str(error)
    except StorageError as error:
        return BusSettings(), error.reason
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return BusSettings(), f"damaged: {error}"
    if found.version != _VERSION:
        return BusSettings(), f"version {found.version}, this program knows {_VERSION}"
    return found, ""


def write_settings(
    run_dir: Path,
    *,
    launch: str,
    backends: Sequence[str],
    log_interval: int,
    bind: str = "",
    alerts: Sequence[str] = (),
) -> BusSettings:
    """Put the settings of a new attempt in place, earlier spools kept. Raises ``OSError``."""
    spools = [os.fspath(root / launch) for root in spool_candidates()]
    listed = dict.fromkeys([*spools, *read_settings(run_dir).spools])
    settings = BusSettings(
        launch=launch,
        backends=tuple(backends),
        log_interval=log_interval,
        spools=tuple(listed)[:_MOST_SPOOLS],
        bind=bind,
        alerts=tuple(alerts),
    )
    _write(run_dir, settings)
    return settings


def add_spools(run_dir: Path, launch: str) -> None:
    """Have what a second rank 0 logs found as well; all else stays as the first one set it. Raises
    ``OSError``."""
    known = read_settings(run_dir)
    spools = [os.fspath(root / launch) for root in spool_candidates()]
    listed = tuple(dict.fromkeys([*known.spools, *spools]))[:_MOST_SPOOLS]
    if listed != known.spools:
        _write(run_dir, msgspec.structs.replace(known, spools=listed))


def _write(run_dir: Path, settings: BusSettings) -> None:
    text = msgspec.json.format(msgspec.json.encode(settings), indent=2)
    write_atomic(bus_directory(run_dir) / SETTINGS_FILE, text + b"\n")
