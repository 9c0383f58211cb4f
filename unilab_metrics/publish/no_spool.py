"""The spool of a publisher that cannot or must not publish: it counts and keeps nothing."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
from unilab_schema.identity import Identity


class NoSpool(Spool):
    """``reason``: what calls are counted under, nothing if empty; ``text``: what the first one
    warns of."""

    def __init__(
        self, identity: Identity, counted: Losses, reason: str = "", text: str = ""
    ) -> None:
        self.directory = Path(identity.spool_path)
        self.identity = identity
        self.inactive = reason or "disabled"
        self.losses = counted
        self.last = 0
        self.trouble = ""
        self.end_waits = None
        self.inside = set()
        self._warning = text
        self._counts_calls = bool(reason)

    @property
    def is_mute(self) -> bool:
        """There is nobody who could say anything."""
        return True

    def refuse(self) -> None:
        """Count a call, if calls are counted."""
        if self._counts_calls:
            super().refuse()

    def close(self, *, remove: bool) -> None:
        """There is nothing to close."""
