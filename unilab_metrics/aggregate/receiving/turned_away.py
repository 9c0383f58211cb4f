"""Who is not taken in, told once of each. Pure; times are of one monotonic clock, passed in.

Of two processes that claim one rank, the second is told at once. A process that is held for an
attempt which has not begun may only be earlier than its rank 0; it is told when that lasts, or
when the run ends without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.doubles import last_word_mono_ns
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.control import Reject
from unilab_schema.identity import LEARNER, Identity

LASTS_NS = 5_000_000_000
_STILL_THERE_NS = 3_000_000_000
"""Who is put off asks again within half a second."""
_APART_NS = 1_000_000_000
"""By that much another clock's stamps are to be later, as far as they can be compared with ours."""
_MOST = 256
"""Processes of each kind; what else comes is in nobody's report."""


class _Held:
    def __init__(self, identity: Identity, text: str, mono_ns: int) -> None:
        self.opens_attempt = identity.key.role == LEARNER and identity.key.rank == 0
        self.text = text
        self.first_mono_ns = self.last_mono_ns = mono_ns
        self.is_told = False


class TurnedAway:
    """Owned by the aggregator's main thread."""

    def __init__(self, peers: Mapping[int, Peer] | None = None) -> None:
        """``peers``: of sources by their indices, as they are heard here."""
        self._peers: Mapping[int, Peer] = {} if peers is None else peers
        self._duplicates: dict[bytes, int] = {}
        self._held: dict[bytes, _Held] = {}

    def refused(self, identity: Identity, refusal: Reject, mono_ns: int) -> str:
        """What is to be told of a Hello that was refused; mostly nothing."""
        if refusal.code == "duplicate_rank":
            return self._duplicate(identity, refusal, mono_ns)
        return self._put_off(identity, refusal, mono_ns) if not refusal.final else ""

    def admitted(self, identity: Identity) -> None:
        """It has been taken in after all."""
        self._held.pop(identity.incarnation, None)

    def left_out(self, mono_ns: int) -> list[str]:
        """What is to be told when the run ends: who asks still, and was not named yet. Nothing
        if the next attempt's rank 0 is there, which goes on with all of them."""
        asking = [
            held
            for held in self._held.values()
            if not held.is_told and mono_ns - held.last_mono_ns < _STILL_THERE_NS
        ]
        if any(held.opens_attempt for held in asking):
            return []
        for held in asking:
            held.is_told = True
        return [held.text for held in asking]

    def has_met(self, source: SourceState, identity: Identity) -> bool:
        """Whether a source has said something of its own after another process began; one of
        another node, after that one was refused."""
        peer = self._peers.get(source.index)
        word_ns = last_word_mono_ns(source)
        if peer is not None and source.ended_mono_ns is None:
            word_ns = max(word_ns, peer.alive_mono_ns)
        if source.identity.boot_id == identity.boot_id:
            return identity.started_mono_ns < word_ns
        refused_ns = self._duplicates.get(identity.incarnation)
        if peer is None or peer.behind_ns is None or refused_ns is None:
            return False
        return word_ns + peer.behind_ns > refused_ns + _APART_NS

    def _duplicate(self, identity: Identity, refusal: Reject, mono_ns: int) -> str:
        known = self._duplicates
        if identity.incarnation in known or len(known) >= _MOST:
            return ""
        known[identity.incarnation] = mono_ns
        return f"pid {identity.pid} on {identity.host} is refused: {refusal.text}"

    def _put_off(self, identity: Identity, refusal: Reject, mono_ns: int) -> str:
        held = self._held.get(identity.incarnation)
        name = f"{identity.key.place} (pid {identity.pid} on {identity.host})"
        text = f"{name} is not taken in: {refusal.text}"
        if held is None:
            if len(self._held) < _MOST:
                self._held[identity.incarnation] = _Held(identity, text, mono_ns)
            return ""
        held.text, held.last_mono_ns = text, mono_ns
        if held.is_told or mono_ns - held.first_mono_ns < LASTS_NS:
            return ""
        held.is_told = True
        return text
