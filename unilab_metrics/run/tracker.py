"""``run_config.json``: what the run is and what it was configured with."""

from __future__ import annotations

import dataclasses
import getpass
import math
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.run.directory import file_mode
from unilab_metrics.storage.filesystem import write_atomic
from unilab_metrics.storage.path_text import shown_path
from unilab_schema.identity import RunInfo

_DEEPEST = 32
_JSON_INTEGERS = range(-(2**63), 2**64)


@runtime_checkable
class _HasDict(Protocol):
    def to_dict(self) -> object: ...


def write_run_config(
    run_dir: Path, run: RunInfo, config: Mapping[str, Any], started: datetime
) -> None:
    """Put ``run_config.json`` in place. Raises ``OSError``.

    Commit, hardware and devices are not looked up here: that takes longer than ``init()`` may.
    """
    content = {
        "run": {
            "algo": run.algorithm,
            "task": run.task,
            "sim_backend": run.sim_backend,
            "log_dir": shown_path(run_dir),
            "start_time_utc": started.isoformat(),
            "hostname": socket.gethostname(),
            "user": _user(),
            "world_size": run.world_size,
        },
        "config": config,
    }
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    write_atomic(run_dir / RUN_CONFIG_FILE, text + b"\n", file_mode(run_dir))


def plain_config(config: object) -> dict[str, Any]:
    """A configuration of any kind as what JSON knows: mappings, dataclasses, msgspec structs,
    OmegaConf containers, objects with ``to_dict()``. What is none of these becomes its text;
    nothing here raises because of a value. A configuration that is no mapping stands under
    ``value``."""
    plain = _plain(config, _DEEPEST)
    if isinstance(plain, dict):
        return cast("dict[str, Any]", plain)
    return {} if plain is None else {"value": plain}


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value in _JSON_INTEGERS else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth == 0:
        return _text(value)
    try:
        return _plain_container(value, depth - 1)
    except Exception:  # noqa: BLE001 (a configuration's own code must not end a training)
        return _text(value)


def _plain_container(value: object, depth: int) -> object:
    omegaconf = sys.modules.get("omegaconf")
    if omegaconf is not None and omegaconf.OmegaConf.is_config(value):
        return _plain(omegaconf.OmegaConf.to_container(value, resolve=True), depth)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_text(key): _plain(item, depth) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth) for item in cast("Iterable[object]", value)]
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value), depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields, depth)
    if isinstance(value, _HasDict):
        return _plain(value.to_dict(), depth)
    return _text(value)


def _text(value: object) -> str:
    """Text that is valid UTF-8, whatever the value is."""
    try:
        return str(value).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 (as above)
        return f"<{type(value).__name__}>"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid())
