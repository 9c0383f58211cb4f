"""Holding a rank back while another one still hands over what it logged meanwhile. Pure.

After an outage every rank has a backlog, and they come back one by one. The first of them could
fill all the windows that may be open, and its iterations would be sealed without the others,
whose frames exist and are only on their way.
"""

from __future__ import annotations

from collections.abc import Mapping

from unilab_metrics.aggregate.folding.deciding import MAX_OPEN_WINDOWS
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.peers import SILENT_AFTER_S, Peer

MAX_AHEAD = MAX_OPEN_WINDOWS // 2
"""Open windows from which on a batch may have to wait; one batch opens no more than the rest."""
RETURN_S = 10.0
"""How long after our start a source that we know from the journal is expected back."""


def must_wait(
    state: AggregatorState,
    peers: Mapping[int, Peer],
    source: SourceState,
    mono_ns: int,
    started_mono_ns: int,
) -> bool:
    """Whether a source's frames are left in its spool for now. Both times are of the
    aggregator's monotonic clock."""
    windows = state.data.windows
    lowest = windows.lowest() if len(windows.open) >= MAX_AHEAD else None
    if lowest is None or not windows.is_done(source.index, lowest.iteration):
        return False
    return any(
        not windows.is_done(other.index, lowest.iteration)
        and _is_catching_up(other, peers.get(other.index), mono_ns, started_mono_ns)
        for other in state.live_learners()
    )


def _is_catching_up(
    source: SourceState, peer: Peer | None, mono_ns: int, started_mono_ns: int
) -> bool:
    if peer is None or not peer.routing_id:
        return mono_ns - started_mono_ns < RETURN_S * 1e9
    if mono_ns - peer.heard_mono_ns > SILENT_AFTER_S * 1e9:
        return False
    backlog = peer.figures.backlog if peer.figures is not None else 0
    return backlog > 0 or source.cursor < peer.hello_last
