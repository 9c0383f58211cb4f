"""Gathers what the aggregator's process counts itself, and what sources tell of themselves.

It becomes part of the run's numbers with the next ``Seal``, at most every 250 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unilab_metrics.aggregate.folding.entries import BusNews, SourceNews
from unilab_metrics.aggregate.options import NodeFigures, no_figures
from unilab_metrics.aggregate.receiving.peers import Peer

INTERVAL_NS = 250_000_000
NODE_TOLD_NS = 2_000_000_000
"""For so long what an update says of the node is on every screen."""


class CommitTimes:
    """How long the journal's commits took since the last look."""

    def __init__(self) -> None:
        self._count = 0
        self._total_ns = 0

    def add(self, duration_ns: int) -> None:
        """One commit that succeeded."""
        self._count += 1
        self._total_ns += duration_ns

    def take_mean_ms(self) -> float | None:
        """Their mean, ``None`` if there was none."""
        count, total_ns = self._count, self._total_ns
        self._count = self._total_ns = 0
        return total_ns / count / 1e6 if count else None


class BusMeter:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        peers: Mapping[int, Peer],
        commits: CommitTimes,
        bad_messages: Callable[[], int],
        node: NodeFigures = no_figures,
    ) -> None:
        """``bad_messages``: how many came to any socket since the process started. ``node``: what
        this node says of itself."""
        self._peers = peers
        self._commits = commits
        self._bad_messages = bad_messages
        self._told_bad_messages = 0
        self._told_mono_ns: int | None = None
        self._node = node
        self._told_sample_mono_ns = 0
        self._node_told_mono_ns: int | None = None

    @property
    def untold_bad_messages(self) -> int:
        """Those that are in no news yet."""
        return self._bad_messages() - self._told_bad_messages

    def news(self, mono_ns: int) -> BusNews | None:
        """What is new since the last call that returned something; ``None`` too soon after it."""
        told = self._told_mono_ns
        if told is not None and mono_ns - told < INTERVAL_NS:
            return None
        self._told_mono_ns = mono_ns
        bad_messages = self.untold_bad_messages
        self._told_bad_messages += bad_messages
        sources = tuple(
            news
            for source, peer in self._peers.items()
            if (news := _news_of(source, peer)) is not None
        )
        return BusNews(
            sources, bad_messages, self._commits.take_mean_ms(), self._node_news(mono_ns)
        )

    def untold_node(self, mono_ns: int) -> dict[str, float]:
        """What this node says of itself, unless news have told it lately."""
        told = self._node_told_mono_ns
        if told is not None and mono_ns - told < NODE_TOLD_NS:
            return {}
        return dict(self._node(mono_ns).values)

    def _node_news(self, mono_ns: int) -> dict[str, float]:
        """A sample is told once: a mean over time weighs each the same."""
        sample = self._node(mono_ns)
        if sample.mono_ns == self._told_sample_mono_ns:
            return {}
        self._told_sample_mono_ns = sample.mono_ns
        self._node_told_mono_ns = mono_ns
        return dict(sample.values)


def _news_of(source: int, peer: Peer) -> SourceNews | None:
    if not peer.has_news:
        return None
    figures = peer.figures if peer.figures != peer.told_figures else None
    drops = peer.drops if peer.drops != peer.told_drops else None
    troubles = peer.troubles if peer.troubles != peer.told_troubles else None
    news = SourceNews(source, figures, peer.duplicates, peer.bad_messages, drops, troubles)
    peer.told_figures, peer.told_drops = peer.figures, peer.drops
    peer.told_troubles = peer.troubles
    peer.duplicates = peer.bad_messages = 0
    peer.has_news = False
    return news
