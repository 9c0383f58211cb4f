"""Processes of other nodes that have not said Hello, as their neighbours have told. Pure; times are
of one monotonic clock, passed in.

A collector of another node finds the aggregator by what its rank has left there, a moment after it.
In a short training that is the moment in which its rank ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.control import Neighbour

WAIT_NS = 10_000_000_000
"""How long each of them is waited for, from when nobody else is there any more."""


class Beside:
    """Owned by the aggregator's main thread."""

    def __init__(self, peers: Mapping[int, Peer], is_known: Callable[[bytes], bool]) -> None:
        """``is_known``: whether the incarnation has been admitted."""
        self._peers = peers
        self._is_known = is_known
        self._since_mono_ns: dict[bytes, int] = {}

    def ranks(self, mono_ns: int) -> frozenset[int]:
        """Ranks of those that are worth waiting for. To be asked when all others are gone."""
        return frozenset(
            neighbour.key.rank
            for neighbour, _ in self._unheard()
            if mono_ns - self._since_mono_ns.setdefault(neighbour.incarnation, mono_ns) <= WAIT_NS
        )

    def unheard(self) -> list[str]:
        """What is to be told of them when the run ends."""
        texts: dict[bytes, str] = {}
        for neighbour, told_by in self._unheard():
            name = f"{neighbour.key.place} (pid {neighbour.pid} on the node of {told_by})"
            texts[neighbour.incarnation] = (
                f"{name} has not been heard; what it has logged waits in its spool for the next "
                "attempt, or for `recover`"
            )
        return list(texts.values())

    def _unheard(self) -> Iterator[tuple[Neighbour, str]]:
        for peer in self._peers.values():
            for neighbour in peer.neighbours:
                if not self._is_known(neighbour.incarnation):
                    yield neighbour, peer.place
