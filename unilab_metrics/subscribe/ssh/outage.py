"""Why nothing can be heard of a run of another machine, and when that is tried again. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Outage(NamedTuple):
    """``host``: as it was written. ``next_s``: seconds until it is tried again, ``None`` while it
    is. ``is_open``: a connection stands, and the host does not answer over it."""

    host: str
    next_s: float | None = None
    is_open: bool = False
