"""Why a connection over TCP does not come about, from what its monitor has seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from unilab_metrics.transport import monitoring
from unilab_metrics.transport.monitoring import Happening

_SURE_AFTER = 2
"""A handshake may break off once because the other side is just ending."""


class Finding(Enum):
    """What is known so far."""

    NO_ANSWER = "nobody answers"
    NOBODY_LISTENS = "nobody listens there"
    NO_BUS = "what listens there is no bus of ours"
    OTHER_SERVER = "the server has another key"
    REFUSED = "the key is refused"
    WELCOME = "connected"

    @property
    def is_sure(self) -> bool:
        """Whether waiting longer changes nothing."""
        return self in {Finding.NO_BUS, Finding.OTHER_SERVER, Finding.REFUSED, Finding.WELCOME}


class Diagnosis:
    """Collects what happens to one connecting socket."""

    def __init__(self) -> None:
        self.finding = Finding.NO_ANSWER
        self._broken_off = 0

    def take(self, happened: Iterable[Happening]) -> Finding:
        """The finding after this, too. The newest word of the server counts."""
        for happening in happened:
            self._take(happening)
        return self.finding

    def _take(self, happening: Happening) -> None:
        kind = happening.kind
        if kind == monitoring.WELCOMED:
            self._broken_off = 0
            self.finding = Finding.WELCOME
        elif kind == monitoring.REFUSED:
            self.finding = Finding.REFUSED
        elif kind == monitoring.NO_PROTOCOL:
            self.finding = Finding.NO_BUS
        elif kind == monitoring.BROKEN_OFF:
            # A server that cannot open our first box hangs up without a word.
            self._broken_off += 1
            if self._broken_off >= _SURE_AFTER:
                self.finding = Finding.OTHER_SERVER
        elif kind == monitoring.RETRIED and self.finding == Finding.NO_ANSWER:
            if not self._broken_off:
                self.finding = Finding.NOBODY_LISTENS
        elif kind == monitoring.CONNECTED and self.finding == Finding.NOBODY_LISTENS:
            self.finding = Finding.NO_ANSWER


WATCHED = monitoring.FAILURES | monitoring.WELCOMED | monitoring.RETRIED | monitoring.CONNECTED
"""What a monitor must see for it."""
