"""A picture of the screen as files: SVG for people to look at, text for people to search.

They lie in ``$XDG_STATE_HOME/unilab-metrics/snapshots``, else below ``~/.local/state``: the
viewer writes nothing into the run, and nothing where the training happened to be started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from unilab_sidecar.saved_view import state_place

_MOST = 1000


def write_snapshot(svg: str, text: str, view: str, environ: Mapping[str, str]) -> Path:
    """Writes both; returns the path of the SVG, beside which the text lies as ``.txt``.

    Nothing is ever overwritten. Raises ``OSError``.
    """
    place = state_place(environ)
    if place is None:
        raise FileNotFoundError("this user has no home directory")
    folder = place / "snapshots"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{view}"
    for number in range(1, _MOST):
        name = stem if number == 1 else f"{stem}_{number}"
        path = folder / f"{name}.svg"
        try:
            _write(path, svg)
        except FileExistsError:
            continue
        _write(path.with_suffix(".txt"), text)
        return path
    raise FileExistsError(f"{folder}/{stem}.svg is taken, and so are {_MOST - 2} others")


def shortened(path: Path) -> str:
    """With ``~`` for the user's home."""
    try:
        return os.path.join("~", path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return os.fspath(path)


def _write(path: Path, content: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
