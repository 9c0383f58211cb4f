"""Connections of sources: who was heard when, and who must be answered. Not journaled."""

from __future__ import annotations

from dataclasses import dataclass, field

from unilab_metrics.aggregate.folding.limits import (
    SPOOL_UNAVAILABLE,
    bounded_counts,
    figures_within,
)
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.skew import ClockSkew
from unilab_schema.control import Batch, Neighbour, SourceFigures, SourceStatus

SILENT_AFTER_S = 5.0
REWIND_INTERVAL_NS = 200_000_000
_MOST_NEIGHBOURS = 64


@dataclass
class Peer:
    """One source's connection. Times are the aggregator's monotonic clock.

    ``hello_last``: the last sequence that there was when the source said Hello.
    ``adopted_upto``: the last sequence of a dead source for which another process speaks.
    ``place``: of the source, for messages, and ``neighbours``: as its last batch told.
    ``alive_mono_ns``: the newest watermark that the source itself has told, on its own clock, and
    ``behind_ns``: how far that clock is behind ours, or less, by the fastest of its messages.
    ``duplicates`` and ``bad_messages`` count since the last news of the bus, see ``bus_meter``.
    """

    routing_id: bytes = b""
    heard_mono_ns: int = 0
    hello_last: int = 0
    frame_mono_ns: int | None = None
    adopted_upto: int | None = None
    is_over_tcp: bool = False
    drops: dict[str, int] = field(default_factory=dict[str, int])
    troubles: dict[str, int] = field(default_factory=dict[str, int])
    duplicates: int = 0
    bad_messages: int = 0
    figures: SourceFigures | None = None
    place: str = ""
    neighbours: tuple[Neighbour, ...] = ()
    has_news: bool = False
    told_drops: dict[str, int] = field(default_factory=dict[str, int])
    told_troubles: dict[str, int] = field(default_factory=dict[str, int])
    told_figures: SourceFigures | None = None
    skew: ClockSkew = field(default_factory=ClockSkew)
    must_answer: bool = False
    must_rewind: bool = False
    was_refused: bool = False
    told_durable: int = -1
    alive_mono_ns: int = 0
    behind_ns: int | None = None
    _rewound: tuple[int, int] = (-1, 0)

    def take(self, batch: Batch, source: SourceState) -> bool:
        """What the source tells of itself. Whether more of what its training logs has failed to
        reach us since the last time."""
        drops = bounded_counts(batch.drops)
        before = source.dropped(self.drops).get(SPOOL_UNAVAILABLE, 0)
        self.drops, self.figures = drops, figures_within(batch.figures)
        self.troubles = bounded_counts(batch.troubles)
        self.place, self.neighbours = source.identity.key.place, batch.neighbours[:_MOST_NEIGHBOURS]
        self.has_news = self.must_answer = True
        if self.adopted_upto is None:
            self.alive_mono_ns = max(self.alive_mono_ns, batch.watermark_mono_ns)
            took_ns = self.heard_mono_ns - batch.mono_ns
            if self.behind_ns is None or took_ns < self.behind_ns:
                self.behind_ns = took_ns
        return drops.get(SPOOL_UNAVAILABLE, 0) > before

    def may_rewind(self, cursor: int, mono_ns: int) -> bool:
        """At most once per cursor value in 200 ms, or two rewinds would chase each other."""
        at_cursor, at_mono_ns = self._rewound
        if cursor == at_cursor and mono_ns - at_mono_ns < REWIND_INTERVAL_NS:
            return False
        self._rewound = (cursor, mono_ns)
        return True


def source_status(source: SourceState, peer: Peer, mono_ns: int) -> SourceStatus:
    """What subscribers are told of a source."""
    age_s = max(mono_ns - peer.heard_mono_ns, 0) / 1e9
    state: str = source.status
    if state == "live" and source.ended is not None:
        state = "finished"
    elif state == "live" and age_s > SILENT_AFTER_S:
        state = "silent"
    frame_age_s = None
    if peer.frame_mono_ns is not None:
        frame_age_s = max(mono_ns - peer.frame_mono_ns, 0) / 1e9
    return SourceStatus(
        source.identity.key,
        source.identity.pid,
        source.identity.host,
        state,
        age_s,
        frame_age_s,
        source.cursor,
        source.lost_frames,
        source.dropped(peer.drops),
        peer.skew.seconds,
        source.duplicates + peer.duplicates,
        source.bad_messages + peer.bad_messages,
        peer.figures,
        dict(peer.troubles or source.troubles),
        source.ended or "",
        source.last_iteration if source.is_learner else None,
    )
