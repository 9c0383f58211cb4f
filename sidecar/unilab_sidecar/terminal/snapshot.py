"""A picture of the screen as files: SVG for people to look at, text for people to search.

They lie in ``$XDG_STATE_HOME/unilab-metrics/snapshots``, else below ``~/.local/state``: the
viewer writes nothing into the run, and nothing where the training happened to be started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TypedDict

from unilab_sidecar.looking.saved_view import state_place
from unilab_sidecar.terminal.picture_drawing import drawn

SVG = "image/svg+xml"
_MOST = 1000


def write_snapshot(svg: str, text: str, view: str, environ: Mapping[str, str]) -> Path:
    """Writes both; returns the path of the SVG, beside which the text lies as ``.txt``. ``svg``: as
    Textual exports it; what is written needs no font from the network.

    Nothing is ever overwritten. Raises ``OSError``.
    """
    place = state_place(environ)
    if place is None:
        raise FileNotFoundError("this user has no home directory")
    folder = place / "snapshots"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = _stem(view)
    for number in range(1, _MOST):
        name = stem if number == 1 else f"{stem}_{number}"
        path = folder / f"{name}.svg"
        try:
            _write(path, drawn(svg))
        except FileExistsError:
            continue
        _write(path.with_suffix(".txt"), text)
        return path
    raise FileExistsError(f"{folder}/{stem}.svg is taken, and so are {_MOST - 2} others")


def kept_snapshot(svg: str, text: str, view: str, environ: Mapping[str, str]) -> str:
    """Writes both, and says where they are or why not: a line each for wide and for narrow
    terminals. Never raises."""
    try:
        path = write_snapshot(svg, text, view, environ)
    except OSError as error:
        return f"not saved: {error.strerror or error}"
    return "\n".join(place_words(shortened(path)))


def place_words(path: str) -> list[str]:
    """Where a picture lies, from long to short. The whole path is worth more than a word beside
    it; where it has no room, its folders are left out from the middle and never the file."""
    *folders, name = path.split(os.sep)
    shorter = [
        f"saved {os.sep.join([*folders[:count], '…', name])}"
        for count in range(len(folders) - 1, 0, -1)
    ]
    return [f"saved {path} and .txt", path, *shorter, f"saved {name}", name]


class Download(TypedDict):
    """Arguments of Textual's ``deliver_binary``."""

    path_or_file: BytesIO
    save_filename: str
    mime_type: str


def download(svg: str, view: str) -> Download:
    """The picture for somebody who looks on in a browser, and has no files here."""
    data = BytesIO(drawn(svg).encode())
    return Download(path_or_file=data, save_filename=f"{_stem(view)}.svg", mime_type=SVG)


def shortened(path: Path) -> str:
    """With ``~`` for the user's home."""
    try:
        return os.path.join("~", path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return os.fspath(path)


def _stem(view: str) -> str:
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{view}"


def _write(path: Path, content: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
