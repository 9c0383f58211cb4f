"""Paths as text that any encoder takes: a name may be bytes that are no UTF-8."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

_BYTES = "bytes:"
"""No absolute path begins so."""


def path_text(path: Path) -> str:
    """An absolute path, so that :func:`path_of` gives it back."""
    text = os.fspath(path)
    return text if _is_clean(text) else _BYTES + quote_from_bytes(os.fsencode(path))


def path_of(text: str) -> Path:
    """What :func:`path_text` was given."""
    if not text.startswith(_BYTES):
        return Path(text)
    return Path(os.fsdecode(unquote_to_bytes(text.removeprefix(_BYTES))))


def shown_path(path: Path) -> str:
    """For people, and for files that only they read: such bytes are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_clean(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
