"""The overview as plain text, and where a word stands in it."""

from __future__ import annotations

from unilab_sidecar.drawing.text import plain
from unilab_sidecar.picture import Picture
from unilab_sidecar.views.overview import layout


def text(picture: Picture, columns: int) -> str:
    return "\n".join(plain(line) for line in layout(picture, columns).lines)


def find(screen: str, word: str) -> tuple[int, int]:
    """Row and column of the first occurrence."""
    for row, line in enumerate(screen.splitlines()):
        if word in line:
            return row, line.index(word)
    raise AssertionError(f"{word!r} is not on the screen:\n{screen}")
