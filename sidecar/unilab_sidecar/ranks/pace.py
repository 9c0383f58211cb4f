"""How often every rank's values are asked for. Pure.

Two processes of 512 ranks answer with some 400 kB: twice a second that would fill a line over ssh.
"""

from __future__ import annotations

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.questions import RanksQuestion

BYTES_PER_S = 128_000
_LOOKS_PER_S = 2
_ROW_BYTES = 64
"""Of a row without its values."""


class RankPace:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._asked: RanksQuestion | None = None
        self._looks = 0

    def question(self, wanted: RanksQuestion, *, is_between: bool) -> RanksQuestion | None:
        """What is to be asked now, if anything: something else at once, the same when its turn is.
        ``is_between``: the next picture is not due yet."""
        if wanted == self._asked:
            if is_between:
                return None
            self._looks -= 1
            if self._looks > 0:
                return None
        self._asked = wanted
        return wanted

    def heed(self, reply: object) -> None:
        """Takes an answer: the larger it is, the longer the next one is waited for."""
        if isinstance(reply, RankValues):
            size = sum(len(row.values) + len(row.ages_s) + _ROW_BYTES for row in reply.rows)
            self._looks = -(-size * _LOOKS_PER_S // BYTES_PER_S)
        elif isinstance(reply, NoAnswer):
            self._looks = 0

    def forget(self) -> None:
        """Nobody looks at them now: who looks again gets them at once."""
        self._asked, self._looks = None, 0
