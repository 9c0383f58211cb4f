"""``bus/settings.json``: how the helpers of a run were started, for whoever starts them again.

Rank 0 writes it at each attempt; ``aggregate RUN`` and ``verify RUN`` without options read it.
The spool directories of earlier attempts stay listed, so that what was cut off is adopted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.filesystem import read_private, spool_candidates, write_atomic
from unilab_metrics.transport.rendezvous import bus_directory

SETTINGS_FILE = "settings.json"
_MAX_BYTES = 1024 * 1024
_MOST_SPOOLS = 64
_VERSION = 1


class BusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``spools``: directories in which this run's processes of this node may have spools.
    ``log_interval``: backends get the iterations that it divides, and the last one."""

    version: int = _VERSION
    backends: tuple[str, ...] = ("tensorboard",)
    log_interval: int = 1
    spools: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(BusSettings)


def launch_spools(launch: str) -> list[Path]:
    """Where processes with this launch key may have put their spools."""
    return [root / launch for root in spool_candidates()]


def read_settings(run_dir: Path) -> BusSettings:
    """The settings of a run; the defaults if it has none that can be read."""
    try:
        found = _decoder.decode(read_private(bus_directory(run_dir) / SETTINGS_FILE, _MAX_BYTES))
    except (OSError, StorageError, msgspec.MsgspecError, UnicodeDecodeError):
        return BusSettings()
    return found if found.version == _VERSION else BusSettings()


def write_settings(
    run_dir: Path, *, backends: Sequence[str], log_interval: int, spools: Iterable[Path]
) -> BusSettings:
    """Put the settings of a new attempt in place, earlier spools kept. Raises ``OSError``."""
    earlier = read_settings(run_dir).spools
    listed = dict.fromkeys([*(os.fspath(spool) for spool in spools), *earlier])
    settings = BusSettings(
        backends=tuple(backends),
        log_interval=log_interval,
        spools=tuple(listed)[:_MOST_SPOOLS],
    )
    text = msgspec.json.format(msgspec.json.encode(settings), indent=2)
    write_atomic(bus_directory(run_dir) / SETTINGS_FILE, text + b"\n")
    return settings
