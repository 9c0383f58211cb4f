"""The newest value of every tag, which a subscriber asks for as it joins. Pure: time and messages
are handed in."""

from __future__ import annotations

from unilab_metrics.subscribe.fetching import Patience
from unilab_schema.requests import Snapshot

_FEW_TAGS = 1000
"""Of which a snapshot is no burden for a line that is slow."""


class NewestValues:
    """Owned by one thread. ``snapshot``: the one that came last."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._is_wanted = True
        self._patience = Patience()

    def is_due(self, now_s: float) -> bool:
        """Whether to ask now; then say so with :meth:`asked`."""
        return self._is_wanted and self._patience.is_due(now_s)

    def asked(self, now_s: float) -> None:
        """The request went out."""
        self._patience.asked(now_s)

    def take(self, reply: Snapshot) -> None:
        """The answer."""
        self.snapshot, self._is_wanted = reply, False

    def renew(self) -> None:
        """Updates were passed over: what comes seldom may have come in one of them."""
        if self.snapshot is not None and len(self.snapshot.tags) <= _FEW_TAGS:
            self._is_wanted = True
            self._patience.forget()

    def unheard(self) -> None:
        """No answer will come to what was asked."""
        self._patience.forget()

    def forget(self) -> None:
        """Another journal."""
        self.__init__()
