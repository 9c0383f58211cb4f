"""Hellos: taking in a process, or saying why it is not taken in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import OpenAttempt
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import Admission, IsDead, admit
from unilab_metrics.aggregate.receiving.turned_away import TurnedAway
from unilab_schema.control import Hello, Reject


class Admitting:
    """Owned by the aggregator's main thread."""

    def __init__(
        self,
        core: Core,
        peers: Mapping[int, Peer],
        is_dead: IsDead,
        vacate: Callable[[SourceState], None],
        hold: Callable[[Admission, int], Admission],
        adopt_orphans: Callable[[], object],
    ) -> None:
        """``is_dead``: whether a source's process is gone; ``vacate``: adopt what it left.
        ``hold``: what becomes of an admission now, as :meth:`LeftElsewhere.hold` says.
        ``adopt_orphans``: take in the spools of dead processes that we do not know."""
        self._core = core
        self._is_dead, self._vacate = is_dead, vacate
        self._hold, self._adopt_orphans = hold, adopt_orphans
        self._turned_away = TurnedAway(peers)

    def admit(self, hello: Hello, *, is_closing: bool) -> Reject | None:
        """Make its process a source, if it may be one; otherwise the refusal."""
        state = self._core.state
        identity = hello.identity
        if state.source_of(identity.incarnation) is None:
            # Whoever died before it reached us comes first, or its place would be taken.
            self._adopt_orphans()
        admission = self._decided(hello, is_closing=is_closing)
        if admission.vacate is not None:
            self._vacate(admission.vacate)
            admission = self._decided(hello, is_closing=is_closing)
        refusal = admission.refusal
        if refusal is not None:
            told = self._turned_away.refused(identity, refusal, time.monotonic_ns())
            self._tell([told] if told else [])
        elif admission.opens_attempt:
            self._core.seal_all()
            self._core.fold(OpenAttempt(state.data.attempt + 1, time.time_ns()))
        for entry in admission.entries:
            self._core.fold(entry)
        if refusal is None:
            self._turned_away.admitted(identity)
        return refusal

    def tell_left_out(self, unheard: Iterable[str]) -> None:
        """The run ends: name the processes that are not taken in any more, and the ``unheard``."""
        self._tell([*self._turned_away.left_out(time.monotonic_ns()), *unheard])

    def _decided(self, hello: Hello, *, is_closing: bool) -> Admission:
        made = admit(
            self._core.state,
            hello,
            self._is_dead,
            is_closing=is_closing,
            is_orphan=hello.adopted,
            at_work=self._turned_away.has_met,
        )
        return made if hello.adopted else self._hold(made, time.monotonic_ns())

    def _tell(self, texts: Iterable[str]) -> None:
        for text in texts:
            say(text)
            self._core.notice("warning", text)
