"""Pictures of the screen beside those that were looked at and approved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from still_sidecar import words


def compare(folder: Path, made: Mapping[str, str]) -> None:
    """Fails for a picture that differs. ``made``: file names without their suffix, and SVGs. With
    another release of what draws them only the words count. ``UPDATE_SNAPSHOTS=1`` in the
    environment approves them."""
    made_with = f"<!-- textual {version('textual')}, rich {version('rich')} -->\n"
    for name, svg in made.items():
        path = folder / f"{name}.svg"
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.write_text(made_with + svg, "utf-8")
        approved = path.read_text("utf-8")
        assert words(svg) == words(approved), name
        if approved.startswith(made_with):
            assert made_with + svg == approved, name
