"""Processes that belong to the run and have not said Hello: on this node, beside a source on
another one, or announced by the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from unilab_metrics.aggregate.folding.attendance import words_on_absent
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.leaving.beside import Beside
from unilab_metrics.aggregate.leaving.newcomers import Announced, Newcomers
from unilab_metrics.aggregate.receiving.peers import Peer


class Unheard:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        state: AggregatorState,
        peers: Mapping[int, Peer],
        spool_roots: Sequence[Path],
        *,
        announced_ranks: Callable[[], frozenset[int]],
        listens: bool,
    ) -> None:
        """``announced_ranks`` and ``listens``: see :class:`Announced`."""
        self._state = state
        self._newcomers = Newcomers(spool_roots, self._is_known)
        self._beside = Beside(peers, self._is_known)
        self._announced = Announced(state.data, announced_ranks, listens=listens)

    def newcomers(self) -> frozenset[int]:
        """Ranks of this node's that an iteration is kept open for."""
        return self._newcomers.ranks()

    def ranks(self) -> frozenset[int]:
        """All that are worth waiting for. To be asked when all others are gone."""
        beside = self._beside.ranks(time.monotonic_ns())
        return self._newcomers.ranks() | self._announced.ranks() | beside

    def words(self) -> list[str]:
        """What is to be told of them when the run ends."""
        absent = words_on_absent(self._state.data)
        return [*([absent] if absent else []), *self._beside.unheard()]

    def _is_known(self, incarnation: bytes) -> bool:
        return self._state.source_of(incarnation) is not None
