"""What processes of other nodes may have left when their rank 0 is started again. Pure; times are
of one monotonic clock, passed in.

On this node the spools of the dead are taken in before anybody has their places. On another one
only a process of the next attempt may be there to send them, and what comes when that attempt has
begun is late. So rank 0 is held for a moment, and with it the attempt; its frames wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import Admission
from unilab_schema.control import Reject

WAIT_NS = 5_000_000_000
"""For a process of that node to come, from rank 0's first Hello on."""
SENDING_NS = 30_000_000_000
"""For one that has begun to send."""
_RETRY_S = 0.2
_ASKS_AGAIN_NS = 2_000_000_000
_MOST_NAMED = 3


class LeftElsewhere:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        data: RunData,
        *,
        peer: Callable[[SourceState], Peer],
        is_out_of_sight: Callable[[SourceState], bool],
    ) -> None:
        """``is_out_of_sight``: whether its files are not to be seen from here."""
        self._data = data
        self._peer = peer
        self._is_out_of_sight = is_out_of_sight
        self._attempt = 0
        self._since_mono_ns = 0
        self._asked_mono_ns = 0

    def hold(self, admission: Admission, mono_ns: int) -> Admission:
        """In the place of one that opens an attempt: a refusal for now, if that is too early."""
        if not admission.opens_attempt:
            return admission
        if self._attempt != self._data.attempt or not self.is_waited_for(mono_ns):
            self._attempt, self._since_mono_ns = self._data.attempt, mono_ns
        left = [s for s in self._data.sources if self._may_have_left(s, mono_ns)]
        if not left:
            self._asked_mono_ns = 0
            return admission
        self._asked_mono_ns = mono_ns
        named = ", ".join(source.identity.key.place for source in left[:_MOST_NAMED])
        text = f"what {named} may have left on another node comes before the next attempt"
        return Admission(refusal=Reject("held", text, retry_after_s=_RETRY_S))

    def is_waited_for(self, mono_ns: int) -> bool:
        """Whether a rank 0 that is held here is about to ask again."""
        return self._asked_mono_ns > 0 and mono_ns - self._asked_mono_ns < _ASKS_AGAIN_NS

    def _may_have_left(self, source: SourceState, mono_ns: int) -> bool:
        if source.status != "live" or source.ended is not None:
            return False
        if source.attempt != self._data.attempt or not self._is_out_of_sight(source):
            return False
        peer, waited_ns = self._peer(source), mono_ns - self._since_mono_ns
        if peer.adopted_upto is not None:
            return source.cursor < peer.adopted_upto and waited_ns < SENDING_NS
        # Who is heard meanwhile is a survivor.
        return peer.heard_mono_ns <= self._since_mono_ns and waited_ns < WAIT_NS
